// SPDX-License-Identifier: Apache-2.0
#include "models/shared/rope_decoder.h"

#include <cmath>

#include "base/error.h"
#include "base/json/json.h"
#include "models/shared/blocks/planned_decoder.h"
#include "models/shared/rotary/rope_plan.h"

namespace transom {

// ---- configuration

int64_t int_or_none(const Config& config, const std::string& key, int64_t otherwise) {
  return json_of(config).contains(key) ? config.get_int(key, 0) : otherwise;
}

RopeDecoderConfig::RopeDecoderConfig(const Config& config)
    : vocab_size(config.get_int("vocab_size", 32000)),
      hidden_size(config.get_int("hidden_size", 4096)),
      intermediate_size(config.get_int("intermediate_size", 11008)),
      num_hidden_layers(config.get_int("num_hidden_layers", 32)),
      num_attention_heads(config.get_int("num_attention_heads", 32)),
      num_key_value_heads(config.get_int("num_key_value_heads", num_attention_heads)),
      head_dim(config.get_int("head_dim", num_attention_heads > 0 ? hidden_size / num_attention_heads : 0)),
      max_position_embeddings(config.get_int("max_position_embeddings", 2048)),
      hidden_act(config.get_string("hidden_act", "silu")),
      norm_eps(config.get_float("rms_norm_eps", 1e-6)),
      initializer_range(config.get_float("initializer_range", 0.02)),
      attention_dropout(config.get_float("attention_dropout", 0)),
      tie_word_embeddings(config.get_bool("tie_word_embeddings", false)) {
  if (config.has("pad_token_id")) {
    pad_token_id = config.get_int("pad_token_id");
    if (*pad_token_id < 0) *pad_token_id += vocab_size;  // as PyTorch counts it
  }
  if (num_attention_heads <= 0 || num_key_value_heads <= 0 || num_attention_heads % num_key_value_heads != 0)
    fail("config.json: num_attention_heads {} is not divisible by num_key_value_heads {}", num_attention_heads,
         num_key_value_heads);
  if (head_dim < 1) fail("config.json: head_dim: expected a number above 0, found {}", head_dim);
  attention_scale = 1 / std::sqrt(static_cast<double>(head_dim));
  sliding_windows.assign(static_cast<size_t>(std::max<int64_t>(0, num_hidden_layers)), 0);
}

RotaryDefaults RopeDecoderConfig::rotary_defaults(double theta) const {
  return {.head_width = head_dim, .theta = theta, .partial = false, .max_positions = max_position_embeddings};
}

std::vector<std::string> RopeDecoderConfig::layer_types(const Config& config,
                                                        bool (*slides)(const Config&, int64_t)) const {
  std::vector<std::string> types = config.get_strings("layer_types");
  if (types.empty())
    for (int64_t i = 0; i < num_hidden_layers; ++i)
      types.push_back(slides(config, i) ? "sliding_attention" : "full_attention");
  if (static_cast<int64_t>(types.size()) != num_hidden_layers)
    fail("config.json: layer_types: expected {} of them (num_hidden_layers), found {}", num_hidden_layers,
         types.size());
  for (const std::string& type : types)
    if (type != "full_attention" && type != "sliding_attention")
      fail(ErrorKind::kUnsupported,
           "config.json: layer_types: {} is not carried out; full_attention and sliding_attention are", quoted(type));
  return types;
}

void RopeDecoderConfig::slide_where(const Config& config, const std::vector<std::string>& types, int64_t window) {
  for (size_t i = 0; i < types.size(); ++i) {
    if (types[i] != "sliding_attention") continue;
    if (window <= 0)
      fail("{}: sliding_window: expected a number, as layer_types names sliding_attention", config.where());
    sliding_windows[i] = window;
  }
}

namespace {

// ---- the plan

NormPlan norm_of(const RopeDecoderConfig& c) {
  const bool layer = c.norm == RopeDecoderConfig::Norm::kLayerNorm;
  return {.kind = layer ? NormPlan::Kind::kLayer : NormPlan::Kind::kRms,
          .epsilon = c.norm_eps,
          .one_plus = c.norm == RopeDecoderConfig::Norm::kRmsFromOne,
          .bias = layer};
}

AttentionPlan attention_of(const RopeDecoderConfig& c, size_t layer) {
  AttentionPlan plan{.heads = c.num_attention_heads,
                     .key_value_heads = c.num_key_value_heads,
                     .head_size = c.head_dim,
                     .bias = c.query_key_value_bias,
                     .output_bias = c.output_bias,
                     .scale = c.attention_scale,
                     .soft_cap = c.attention_soft_cap,
                     .clip = c.projection_clip,
                     .window = c.sliding_windows[layer],
                     .rotary = c.rotary.size() == 1 ? 0 : layer,
                     .dropout = c.attention_dropout};
  if (c.fused_projections) plan.fused = FusedPlan{.module = "self_attn.qkv_proj"};
  if (c.head_norms || c.joint_norms)
    plan.head_norms = HeadNormsPlan{.over = c.joint_norms ? HeadNormsPlan::Over::kAllHeads : HeadNormsPlan::Over::kHead,
                                    .query = "self_attn.q_norm",
                                    .key = "self_attn.k_norm",
                                    .norm = norm_of(c)};
  return plan;
}

FeedForwardPlan feed_forward_of(const RopeDecoderConfig& c) {
  FeedForwardPlan plan{.gated = c.gated, .width = c.intermediate_size, .activation = c.hidden_act, .bias = c.mlp_bias};
  if (!c.gated) plan.up = "mlp.c_fc", plan.down = "mlp.c_proj";
  else if (c.fused_projections) plan.fused = "mlp.gate_up_proj";
  return plan;
}

BlockPlan block_of(const RopeDecoderConfig& c, size_t layer) {
  BlockPlan plan{.attention = attention_of(c, layer),
                 .feed_forward = feed_forward_of(c),
                 .has_experts = c.experts && c.experts->at(layer),
                 .attention_dropout = c.residual_dropout,
                 .feed_forward_dropout = c.residual_dropout};
  if (!c.norms_behind) return plan;
  plan.after_attention = "post_attention_layernorm";
  plan.before_feed_forward = "pre_feedforward_layernorm", plan.after_feed_forward = "post_feedforward_layernorm";
  return plan;
}

}  // namespace

DecoderPlan rope_decoder_plan(const RopeDecoderConfig& c) {
  DecoderPlan plan{.vocabulary = c.vocab_size,
                   .width = c.hidden_size,
                   .deviation = c.initializer_range,
                   .padding = c.pad_token_id,
                   .token_scale = c.embedding_scale,
                   .embedding_dropout = c.embedding_dropout,
                   .norm = norm_of(c),
                   .bidirectional = c.bidirectional,
                   .experts = c.experts};
  for (int64_t i = 0; i < c.num_hidden_layers; ++i) plan.blocks.push_back(block_of(c, static_cast<size_t>(i)));
  for (const RotaryOptions& options : c.rotary) plan.rotary.push_back({options});
  plan.traits = {.vocab_size = c.vocab_size,
                 .width = c.hidden_size,
                 .tie_word_embeddings = c.tie_word_embeddings,
                 .initializer_range = c.initializer_range,
                 .logit_soft_cap = c.logit_soft_cap,
                 .pad_token_id = c.pad_token_id,
                 .cache_expires_at = c.cache_expires_at,
                 .auxiliary_weight = c.experts ? c.experts->auxiliary_weight : 0};
  return plan;
}

std::unique_ptr<Decoder> make_rope_decoder(const RopeDecoderConfig& config, const Scope& scope) {
  return make_planned_decoder(rope_decoder_plan(config), scope);
}

}  // namespace transom
