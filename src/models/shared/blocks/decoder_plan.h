// SPDX-License-Identifier: Apache-2.0
// The options of a decoder-only model, each with its value: what is left of a configuration once it is read.
// planned_decoder.h computes it. Families fill a plan in C++ (rope_decoder.h) or from a file (models/described).
// Letters: B batch, T time, D hidden, H heads of queries, G heads of keys and values, d head size.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "models/nn/attention/rotary.h"
#include "models/shared/decoder.h"
#include "models/shared/mixtures/mixture_of_experts.h"

namespace transom {

struct NormPlan {
  enum class Kind {
    kRms,    // Zhang and Sennrich, 2019
    kLayer,  // Ba et al., 2016
  } kind = Kind::kRms;
  double epsilon = 1e-6;
  bool one_plus = false;  // the weight is what the scale has above 1
  bool weight = true;     // false: nothing is learned
  bool bias = false;      // of kLayer
};

struct RotaryPlan {
  RotaryOptions options;
  // Of positions with several numbers (Qwen2-VL): how many pairs turn by the first of them, by the second ...; empty:
  // a position is one number.
  std::vector<int64_t> sections = {};
  bool interleaved = false;  // numbers that turn together stand side by side; else half of those that turn apart
  bool operator==(const RotaryPlan&) const = default;
};

// How queries, keys and values lie in one fused layer.
struct FusedPlan {
  enum class Layout {
    kParts,   // H heads of queries, G of keys, G of values
    kGroups,  // for each of G groups: H / G heads of queries, one of keys, one of values
    kBlocks,  // for each of `blocks` blocks: D / blocks numbers of queries, of values, of keys (CodeGen)
  } layout = Layout::kParts;
  std::string module;
  int64_t blocks = 1;
};

// Norms of queries and keys.
struct HeadNormsPlan {
  enum class Over {
    kHead,         // each head by itself, with one weight [d] for all
    kAllHeads,     // all heads at once, weight [H d]
    kHeadWeights,  // each head by itself, with a weight of its own: [H, d]
    kHeadModules,  // the same as modules NAME.norms.0, NAME.norms.1 ... of [d]
  } over = Over::kHead;
  std::string query, key;  // modules
  NormPlan norm;
  bool after_rotary = false;
};

// Queries grow with their position p: times 1 + beta log(1 + floor(p / length)) (Llama 4, Ministral 3).
struct QueryGrowthPlan {
  double beta = 0, length = 1;
};

// Keys and values that are made of one latent vector of each token (multi-head latent attention, DeepSeek-AI, 2024):
// keys are `plain` numbers of a head beside `turning` ones that all heads share, values are `value_size` numbers.
// Queries may be made of a latent vector too. A cache holds one head: the latent vector with the shared numbers as a
// key, and the latent vector as a value.
struct LatentPlan {
  int64_t query_rank = 0, rank = 1;  // of the latent vectors; of queries 0: none
  int64_t plain = 1, turning = 1, value_size = 1;
  std::string query_inner = "self_attn.q_a_proj", query_norm = "self_attn.q_a_layernorm",
              query_outer = "self_attn.q_b_proj", inner = "self_attn.kv_a_proj_with_mqa",
              norm = "self_attn.kv_a_layernorm", outer = "self_attn.kv_b_proj";  // modules
  double norm_epsilon = 1e-6;
};

struct AttentionPlan {
  int64_t heads = 1, key_value_heads = 1, head_size = 1;
  std::string query = "self_attn.q_proj", key = "self_attn.k_proj", value = "self_attn.v_proj",
              output = "self_attn.o_proj";  // modules
  std::optional<FusedPlan> fused;           // in place of the first three
  bool bias = false, output_bias = false;
  bool gated = false;  // the layer of queries gives [H, 2, d]: queries, and gates of what attention makes
  double scale = 1, soft_cap = 0, clip = 0;  // 0: none
  int64_t window = 0;                        // tokens that a query sees; 0: all before it
  std::optional<size_t> rotary;              // which of the plan's; none: no positions here
  std::optional<HeadNormsPlan> head_norms;
  bool value_norm = false;        // values of each head are normed as by RMS, and nothing is learned there
  bool values_are_keys = false;   // the layer of keys makes the values too
  std::optional<size_t> keys_of;  // the block before this one whose keys and values are read here; none: it makes them
  std::optional<QueryGrowthPlan> growth;
  std::optional<LatentPlan> latent;  // of one head size, plain + turning; there are as many heads of keys as of queries
  std::string sinks;                 // a parameter [H]: one more score of each head, without a value; empty: none
  double dropout = 0;
};

struct FeedForwardPlan {
  bool gated = true;
  std::string gate = "mlp.gate_proj", up = "mlp.up_proj", down = "mlp.down_proj";  // modules; `gate` where gated
  std::string fused;                                                               // gate and up in one; empty: none
  int64_t width = 1;
  std::string activation = "silu";
  bool bias = false;
  double activation_dropout = 0;
};

// A layer that keeps a state of the text, in place of attention: x [B, T, D] -> [B, T, D]; the mask [B, T] may be
// empty.
using StateMixer = std::function<Tensor(const Tensor& x, const Tensor& attention_mask, ForwardContext& context)>;
struct StateMixerPlan {
  std::string module;
  size_t states = 1;  // how many it keeps, whose numbers in a cache begin with `first`
  std::function<StateMixer(const Scope& scope, size_t first)> make;
};

struct BlockPlan {
  AttentionPlan attention;
  std::optional<StateMixerPlan> mixer;  // in place of attention
  FeedForwardPlan feed_forward;
  bool has_experts = false;           // in place of the feed-forward layer
  bool feed_forward_too = false;      // beside experts: what both make is added
  bool attends = true, feeds = true;  // blocks of some families have but one of both parts
  // Norms about experts that read what the feed-forward layer's norm reads, and behind that layer; empty: there are
  // none, and both read the same.
  std::string before_experts, after_experts, after_beside;
  // Modules of norms; empty: none there. A parallel block without a norm before its feed-forward layer gives that what
  // attention reads.
  std::string before_attention = "input_layernorm", after_attention, before_feed_forward = "post_attention_layernorm",
              after_feed_forward;
  std::string scale;               // a buffer [1] that all of the block's result is multiplied with; empty: none
  bool parallel = false;           // attention and feed-forward layer side by side: x + attention + feed-forward
  double residual_multiplier = 1;  // of what is added to x
  double attention_dropout = 0, feed_forward_dropout = 0;  // of the same
};

// A bias of scores that grows with the place of a key (Press et al., "Train short, test long", 2021).
struct AlibiPlan {
  int64_t heads = 1;
  double largest = 8;    // 2 to minus this is the smallest slope
  bool by_mask = true;   // padding is not counted; false: it is
  double scale = 1;      // of the bias
  bool rounded = false;  // slopes and biases are bfloat16, as Falcon's are
};

// Vectors of positions that are added to those of tokens.
struct PositionTable {
  std::string module;               // of learned ones; empty: sines and cosines (Vaswani et al., 2017)
  int64_t rows = 0;                 // learned ones: positions that there are
  int64_t offset = 0;               // the row of position 0
  std::optional<int64_t> zero_row;  // of sinusoids
};

// A second vector of each token for each block (Gemma 3n and 4): a row of a table of its own, [layers * width], beside
// what a layer makes of the vector that the first block reads, normed; the mean of both times the root of 2. A block
// multiplies it with what `gate` lets by of its result, and adds what `outward` makes of that, normed.
struct LayerInputsPlan {
  std::string table = "embed_tokens_per_layer", projection = "per_layer_model_projection",
              projection_norm = "per_layer_projection_norm";  // modules
  std::string gate = "per_layer_input_gate", outward = "per_layer_projection",
              norm = "post_per_layer_input_norm";  // of each block
  int64_t vocabulary = 0, width = 0;
  std::string activation = "gelu_pytorch_tanh";  // of gates
};

struct DecoderPlan {
  std::string embeddings = "embed_tokens", stack = "layers", final_norm = "norm";  // modules
  int64_t vocabulary = 0, width = 0;
  double deviation = 0.02;                  // of new weights
  std::optional<int64_t> padding;           // the token whose vector is not trained
  double token_scale = 1, input_scale = 1;  // of the vectors of tokens; of what the first layer reads, given or not
  std::string embedding_norm;               // a module; empty: none
  double embedding_dropout = 0;
  NormPlan norm;
  std::vector<BlockPlan> blocks;
  std::vector<RotaryPlan> rotary;
  std::optional<AlibiPlan> alibi;
  std::optional<PositionTable> positions;
  bool bidirectional = false;                        // all tokens see all, or those on both sides within their window
  bool counts_padding = true;                        // positions; false: padding has none
  bool takes_positions = true, takes_types = false;  // position_ids; token_type_ids, whose vectors are those of tokens
  std::optional<ExpertsConfig> experts;
  std::optional<LayerInputsPlan> layer_inputs;
  DecoderTraits traits;
};

}  // namespace transom
