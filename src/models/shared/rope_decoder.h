// SPDX-License-Identifier: Apache-2.0
// The decoder that LLaMA (Touvron et al., 2023) made the common one: pre-norm layers of rotary self-attention with
// grouped heads and a gated feed-forward layer. Mistral, Qwen, Gemma, Mixtral, Phi-3 and StarCoder 2 are it with other
// options; each has a file that reads its configuration. Letters: B batch, T time, D hidden, H heads, G heads of keys
// and values, d head size.
#pragma once

#include <optional>
#include <vector>

#include "models/nn/attention/rotary.h"
#include "models/shared/decoder.h"
#include "models/shared/mixtures/mixture_of_experts.h"
#include "models/shared/rotary/rotary_config.h"
#include "transom/layers.h"

namespace transom {

struct RopeDecoderConfig {
  // Reads the fields that all of them have, with LLaMA's defaults.
  explicit RopeDecoderConfig(const Config& config);

  int64_t vocab_size, hidden_size, intermediate_size, num_hidden_layers, num_attention_heads, num_key_value_heads,
      head_dim, max_position_embeddings;
  std::string hidden_act;
  double norm_eps, initializer_range, attention_dropout;
  double embedding_dropout = 0, residual_dropout = 0;
  bool tie_word_embeddings;
  std::optional<int64_t> pad_token_id;

  enum class Norm {
    kRms,
    kRmsFromOne,  // the weight is what the scale has above 1
    kLayerNorm,
  } norm = Norm::kRms;
  bool norms_behind = false;   // one more norm behind attention and feed-forward, before the sum: Gemma 2
  bool head_norms = false;     // queries and keys of each head are normed: Qwen 3
  bool joint_norms = false;    // queries are normed over all heads at once, and keys: OLMoE
  double projection_clip = 0;  // queries, keys and values are kept between minus this and this; 0: as they are

  bool query_key_value_bias = false, output_bias = false, mlp_bias = false;
  bool fused_projections = false;  // qkv_proj and gate_up_proj: Phi-3
  bool gated = true;               // false: c_fc and c_proj: StarCoder 2
  std::optional<ExpertsConfig> experts;

  double attention_scale;         // 1 / sqrt(d)
  double attention_soft_cap = 0;  // 0: none
  double logit_soft_cap = 0;      // 0: none
  double embedding_scale = 1;
  std::vector<int64_t> sliding_windows;  // of each layer; 0: none
  std::vector<RotaryOptions> rotary;     // one for all layers, or one for each
  int64_t cache_expires_at = 0;
  bool bidirectional = false;  // an encoder: all tokens see all, or those within their window on both sides

  RotaryDefaults rotary_defaults(double theta = 10000) const;
  // The kind of each layer, "full_attention" or "sliding_attention": layer_types, else what `otherwise` says of layer
  // i. Other kinds are refused by name.
  std::vector<std::string> layer_types(const Config& config, bool (*slides)(const Config& config, int64_t layer)) const;
  void slide_where(const Config& config, const std::vector<std::string>& types, int64_t window);
};

// A whole number, or 0 where config.json holds null; `otherwise` where it is silent.
int64_t int_or_none(const Config& config, const std::string& key, int64_t otherwise);

std::unique_ptr<Decoder> make_rope_decoder(const RopeDecoderConfig& config, const Scope& scope);

}  // namespace transom
