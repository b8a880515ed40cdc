// SPDX-License-Identifier: Apache-2.0
// Mistral (Jiang et al., 2023): LLaMA with a sliding window; and Mixtral (Jiang et al., 2024): with a mixture of
// experts in place of the feed-forward layer.
#include "base/error.h"
#include "base/json/json.h"
#include "models/shared/rope_decoder.h"
#include "models/shared/rope_decoder_gguf.h"

namespace transom {
namespace {

constexpr char kMistralPrefix[] = "model";

RopeDecoderConfig mistral_config(const Config& given, double theta, int64_t sliding_window) {
  const Config config = with_defaults(
      given, R"({"num_key_value_heads": 8, "intermediate_size": 14336, "max_position_embeddings": 131072})");
  RopeDecoderConfig c(config);
  // Null asks for as many heads of keys as of queries.
  if (json_of(given).contains("num_key_value_heads") && !given.has("num_key_value_heads"))
    c.num_key_value_heads = c.num_attention_heads;
  c.sliding_windows.assign(c.sliding_windows.size(), int_or_none(config, "sliding_window", sliding_window));
  c.rotary = {rotary_options(config, c.rotary_defaults(theta))};
  return c;
}

std::unique_ptr<Decoder> make_mistral(const Config& config, const Scope& scope) {
  return make_rope_decoder(mistral_config(config, 10000, 4096), scope);
}

std::unique_ptr<Decoder> make_mixtral(const Config& given, const Scope& scope) {
  const Config config = with_defaults(given, R"({"rms_norm_eps": 1e-5})");
  RopeDecoderConfig c = mistral_config(config, 1000000, 0);
  c.experts = {.experts = config.get_int("num_local_experts", config.get_int("num_experts", 8)),
               .experts_per_token = config.get_int("num_experts_per_tok", 2),
               .width = c.hidden_size,
               .intermediate_width = c.intermediate_size,
               .activation = c.hidden_act,
               .deviation = c.initializer_range,
               .auxiliary_weight =
                   config.get_bool("output_router_logits", false) ? config.get_float("router_aux_loss_coef", 0.001) : 0,
               .jitter = config.get_float("router_jitter_noise", 0)};
  return make_rope_decoder(c, scope);
}

// Eight where the configuration is silent; null asks for as many as of queries.
void state_key_heads(std::vector<GgufKey>& keys) {
  GgufKey& heads = gguf_key(keys, "attention.head_count_kv");
  heads.where_null = heads.written;
  heads.written = {GgufUsual::Is::kNumber, 8};
}

// Files of LLaMA's architecture, told from LLaMA by a window.
GgufFamily mistral_gguf() {
  GgufFamily gguf = gguf_decoder("llama", "MistralForCausalLM");
  gguf.told_by = "attention.sliding_window", gguf.unless = "expert_count";
  gguf.names = gguf_llama_names();
  gguf.biases = {{"attention_bias", "attn_q"}, {"mlp_bias", "ffn_up"}};
  state_key_heads(gguf.keys);
  gguf.keys.push_back({.key = "attention.sliding_window",
                       .field = "sliding_window",
                       .kind = GgufKey::Kind::kCountIfAny,
                       .written = {GgufUsual::Is::kNumber, 4096}});
  return gguf;
}

// And by experts.
GgufFamily mixtral_gguf() {
  GgufFamily gguf = gguf_decoder("llama", "MixtralForCausalLM");
  gguf.told_by = "expert_count";
  gguf.names = gguf_llama_names();
  for (const GgufName& name :
       gguf_expert_names("block_sparse_moe.gate", "block_sparse_moe.experts.*.", {"w1", "w2", "w3"}))
    gguf.names.stacks[0].rules.push_back(name);
  gguf.biases = {{"attention_bias", "attn_q"}, {"mlp_bias", "ffn_up"}};
  state_key_heads(gguf.keys);
  gguf_key(gguf.keys, "attention.layer_norm_rms_epsilon").written = {GgufUsual::Is::kNumber, 1e-5};
  for (const GgufKey& key : gguf_expert_keys("num_local_experts", 8, 2)) gguf.keys.push_back(key);
  gguf.keys.push_back({.key = "attention.sliding_window",
                       .field = "sliding_window",
                       .kind = GgufKey::Kind::kCountIfAny,
                       .written = {GgufUsual::Is::kNothing},
                       .read = {GgufUsual::Is::kNull}});
  gguf.rotary->theta = 1000000;
  return gguf;
}

}  // namespace

static Family mistral_family() {
  return {.model_type = "mistral",
          .base_prefix = kMistralPrefix,
          .architectures = answering_decoder_architectures<make_mistral, kMistralPrefix, kMistralPrefix>("Mistral"),
          .inputs = placed_text_inputs(FamilyInput::Export::kStates),
          .processors = {.tokenizer = "Llama",
                         .image_processor = none,
                         .positions = PositionLimit{{"max_position_embeddings"}},
                         .spaced_words = false,
                         .spans = false},
          .weights = {.lora_targets = {"q_proj", "v_proj"},
                      .late_parts = none,
                      .awq_activation = none,
                      .scaled_layers = gated_decoder_layers(),
                      .opens_no_codes = false,
                      .multi_query = none,
                      .adapter_targets = {.ia3 = {"k_proj", "v_proj", "down_proj"},
                                          .ia3_feedforward = {"down_proj"},
                                          .norms = {"input_layernorm", "post_attention_layernorm", "norm"}}},
          .foreign = {.gguf = mistral_gguf(),
                      .keras = KerasNames{.body = "model",
                                          .joint = ".",
                                          .without = {"MistralForQuestionAnswering", "MistralForTokenClassification"},
                                          .scale = "weight"},
                      .flax = FlaxNames{.without = {"MistralForSequenceClassification", "MistralForTokenClassification",
                                                    "MistralForQuestionAnswering"},
                                        .scale = "weight"}},
          .planning = {.fused_attention = true}};
}
static Family mixtral_family() {
  return {.model_type = "mixtral",
          .base_prefix = kMistralPrefix,
          .architectures = answering_decoder_architectures<make_mixtral, kMistralPrefix, kMistralPrefix>("Mixtral"),
          .inputs = placed_text_inputs(FamilyInput::Export::kStates),
          .processors = {.tokenizer = "Llama",
                         .image_processor = none,
                         .positions = PositionLimit{{"max_position_embeddings"}},
                         .spaced_words = false,
                         .spans = false},
          .weights = {.lora_targets = {"q_proj", "v_proj"},
                      .late_parts = none,
                      .awq_activation = none,
                      .scaled_layers = none,
                      .opens_no_codes = false,
                      .multi_query = none,
                      .adapter_targets = {.ia3 = {"k_proj", "v_proj", "w2"}, .ia3_feedforward = {"w2"}, .norms = {}}},
          .foreign = {.gguf = mixtral_gguf(), .keras = none, .flax = none},
          .planning = {.fused_attention = true}};
}

const RegisterFamilies kMistralFamilies{mistral_family, mixtral_family};

}  // namespace transom
