// SPDX-License-Identifier: Apache-2.0
// The decoder of Llama 3.2 Vision (Grattafiori et al., 2024): LLaMA's layers, and between them gated ones that look at
// pictures in place of the text. B batch, T time, S places of the pictures, D hidden, H heads, G heads of keys and
// values, d head size.
#pragma once

#include <optional>
#include <vector>

#include "models/nn/attention/cache.h"
#include "models/shared/blocks/attention_layer.h"
#include "models/shared/blocks/feed_forward_layer.h"
#include "models/shared/blocks/norm_layer.h"

namespace transom {

// The pictures of a pass, unless those of a cache (KeyValueCache::sources) stand for them; without both, the layers
// that look at pictures are left out.
struct PicturesBeside {
  Tensor states;      // [B, S, D]
  Tensor bias = {};   // additive [B, 1, T, S]; empty: all tokens see all
  Tensor feeds = {};  // [B, T, 1]: 0 where a token is given nothing by a feed-forward layer behind; empty: all are
  Tensor reads = {};  // [B, 1, 1] of whole numbers: 0 where a text has no pictures, and stays as it is; empty: all have
};

class MllamaSelfBlock {
 public:
  MllamaSelfBlock(const Scope& scope, const DecoderPlan& plan, size_t block, int64_t number);
  Tensor operator()(const Tensor& x, const AttentionInputs& inputs, ForwardContext& context) const;

 private:
  std::string path_;
  PlannedAttention self_attn_;
  PlannedFeedForward mlp_;
  PlannedNorm input_layernorm_, post_attention_layernorm_;
};

class MllamaCrossBlock {
 public:
  // `number` is that of its keys among those of sources, `rows` how many places a block of these has.
  MllamaCrossBlock(const Scope& scope, const DecoderPlan& plan, size_t block, size_t number, int64_t rows);
  Tensor operator()(const Tensor& x, const PicturesBeside& pictures, ForwardContext& context) const;
  // states [..., S, D] -> [..., S, G, d]
  KeysAndValues keys_of(const Tensor& states, ForwardContext& context) const;

 private:
  std::string path_;
  AttentionPlan plan_;
  size_t number_;
  int64_t rows_;
  std::shared_ptr<Parameter> attention_gate_, mlp_gate_;
  Linear q_proj_, k_proj_, v_proj_, o_proj_;
  RmsNorm q_norm_, k_norm_;
  PlannedNorm input_layernorm_;
  PlannedFeedForward mlp_;
  PlannedNorm post_attention_layernorm_;
  Dropout dropout_;
};

class MllamaText {
 public:
  // `rows`: places of a tile.
  MllamaText(const Config& config, const Scope& scope, int64_t rows);
  DecoderOutput operator()(const NamedTensors& inputs, const PicturesBeside& pictures, ForwardContext& context) const;
  // Of states [n, D], for each layer that looks at pictures: [n, G, d].
  std::vector<KeysAndValues> keys_of(const Tensor& states, ForwardContext& context) const;
  const DecoderTraits& traits() const { return plan_.traits; }
  const Embedding& word_embeddings() const { return embed_tokens_; }

 private:
  struct Block {  // one of both
    std::optional<MllamaSelfBlock> self;
    std::optional<MllamaCrossBlock> cross;
  };
  DecoderPlan plan_;
  Embedding embed_tokens_;
  std::vector<Block> layers_;
  PlannedNorm norm_;
  RotaryEmbedding rotary_;
};

}  // namespace transom
