// SPDX-License-Identifier: Apache-2.0
// OLMoE (Muennighoff et al., 2024): LLaMA with experts in every layer, and norms of queries and keys over all heads at
// once.
#include "base/json/json.h"
#include "models/shared/rope_decoder.h"
#include "models/shared/rope_decoder_gguf.h"

namespace transom {
namespace {

constexpr char kOlmoePrefix[] = "model";

std::unique_ptr<Decoder> make_olmoe(const Config& given, const Scope& scope) {
  const Config config = with_defaults(given, R"({"vocab_size": 50304, "hidden_size": 2048, "intermediate_size": 2048,
      "num_hidden_layers": 16, "num_attention_heads": 16, "max_position_embeddings": 4096, "rms_norm_eps": 1e-5,
      "pad_token_id": 1})");
  RopeDecoderConfig c(config);
  c.query_key_value_bias = c.output_bias = config.get_bool("attention_bias", false);
  c.joint_norms = true;
  c.projection_clip = config.get_float("clip_qkv", 0);
  c.rotary = {rotary_options(config, c.rotary_defaults())};
  c.experts = {.experts = config.get_int("num_experts", config.get_int("num_local_experts", 64)),
               .experts_per_token = config.get_int("num_experts_per_tok", 8),
               .width = c.hidden_size,
               .intermediate_width = c.intermediate_size,
               .activation = c.hidden_act,
               .deviation = c.initializer_range,
               .auxiliary_weight =
                   config.get_bool("output_router_logits", false) ? config.get_float("router_aux_loss_coef", 0.01) : 0,
               .names = gated_expert_names(),
               .shares_sum_to_one = config.get_bool("norm_topk_prob", false)};
  return make_rope_decoder(c, scope);
}

GgufFamily olmoe_gguf() {
  GgufFamily gguf = gguf_decoder("olmoe", "OlmoeForCausalLM");
  gguf.names =
      gguf_decoder_names({gguf_attention_names(), gguf_norm_names(),
                          gguf_expert_names("mlp.gate", "mlp.experts.*.", {"gate_proj", "down_proj", "up_proj"})});
  for (const GgufKey& key : gguf_expert_keys("num_experts", 64, 8)) gguf.keys.push_back(key);
  gguf_key(gguf.keys, "attention.layer_norm_rms_epsilon").written = {GgufUsual::Is::kNumber, 1e-5};
  gguf.biases = {{"attention_bias", "attn_q"}};
  // As llama.cpp computes it.
  gguf.fixed = {{"norm_topk_prob", "false"}, {"clip_qkv", "null"}};
  return gguf;
}

}  // namespace

static Family olmoe_family() {
  return {.model_type = "olmoe",
          .base_prefix = kOlmoePrefix,
          .architectures = {decoder_architecture<make_olmoe, kOlmoePrefix, DecoderHead::kNone>("OlmoeModel"),
                            decoder_architecture<make_olmoe, kOlmoePrefix, DecoderHead::kCausalLM>("OlmoeForCausalLM")},
          .inputs = placed_text_inputs(FamilyInput::Export::kStates),
          .processors = {.tokenizer = "GPTNeoX",
                         .image_processor = none,
                         .positions = PositionLimit{{"max_position_embeddings"}},
                         .spaced_words = false,
                         .spans = false},
          .weights = {.lora_targets = none,
                      .late_parts = none,
                      .awq_activation = none,
                      .scaled_layers = none,
                      .opens_no_codes = false,
                      .multi_query = none},
          .foreign = {.gguf = olmoe_gguf(), .keras = none, .flax = none},
          .planning = {.fused_attention = true}};
}

const RegisterFamilies kOlmoeFamily{olmoe_family};

}  // namespace transom
