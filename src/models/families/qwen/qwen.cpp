// SPDX-License-Identifier: Apache-2.0
// Qwen 2 and 2.5 (Yang et al., 2024): LLaMA with biases of queries, keys and values; Qwen 3 (Yang et al., 2025): with a
// norm of queries and keys instead. Both may have a sliding window in their upper layers.
#include "models/shared/rope_decoder.h"
#include "models/shared/rope_decoder_gguf.h"

namespace transom {
namespace {

constexpr char kQwenPrefix[] = "model", kQwenAnswersPrefix[] = "transformer";  // as ForQuestionAnswering has it

RopeDecoderConfig qwen_config(const Config& config) {
  RopeDecoderConfig c(config);
  const bool uses_window = config.get_bool("use_sliding_window", false);
  const auto types = c.layer_types(config, [](const Config& given, int64_t layer) {
    return given.get_bool("use_sliding_window", false) && int_or_none(given, "sliding_window", 4096) > 0 &&
           layer >= given.get_int("max_window_layers", 28);
  });
  c.slide_where(config, types, uses_window ? int_or_none(config, "sliding_window", 4096) : 0);
  c.rotary = {rotary_options(config, c.rotary_defaults())};
  return c;
}

std::unique_ptr<Decoder> make_qwen2(const Config& given, const Scope& scope) {
  RopeDecoderConfig c = qwen_config(
      with_defaults(given, R"({"vocab_size": 151936, "intermediate_size": 22016, "max_position_embeddings": 32768})"));
  c.query_key_value_bias = true;
  return make_rope_decoder(c, scope);
}

std::unique_ptr<Decoder> make_qwen3(const Config& given, const Scope& scope) {
  const Config config = with_defaults(
      given,
      R"({"vocab_size": 151936, "intermediate_size": 22016, "max_position_embeddings": 32768, "head_dim": 128})");
  RopeDecoderConfig c = qwen_config(config);
  c.query_key_value_bias = c.output_bias = config.get_bool("attention_bias", false);
  c.head_norms = true;
  return make_rope_decoder(c, scope);
}

GgufFamily qwen2_gguf() {
  GgufFamily gguf = gguf_decoder("qwen2", "Qwen2ForCausalLM");
  gguf.stands_for = R"({"hidden_act": "silu", "use_sliding_window": false})";
  return gguf;
}

GgufFamily qwen3_gguf() {
  GgufFamily gguf = gguf_decoder("qwen3", "Qwen3ForCausalLM");
  gguf.stands_for = R"({"hidden_act": "silu", "use_sliding_window": false})";
  gguf.biases = {{"attention_bias", "attn_q"}};
  for (const char* key : {"attention.key_length", "attention.value_length"})
    gguf_key(gguf.keys, key).written = {GgufUsual::Is::kNumber, 128};
  return gguf;
}

}  // namespace

static Family qwen2_family() {
  return {.model_type = "qwen2",
          .base_prefix = kQwenPrefix,
          .architectures = answering_decoder_architectures<make_qwen2, kQwenPrefix, kQwenAnswersPrefix>("Qwen2"),
          .inputs = placed_text_inputs(FamilyInput::Export::kStates),
          .processors = {.tokenizer = "Qwen2",
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
                      .adapter_targets = {.ia3 = {"q_proj", "v_proj", "down_proj"},
                                          .ia3_feedforward = {"down_proj"},
                                          .norms = {"post_attention_layernorm"}}},
          .foreign = {.gguf = qwen2_gguf(), .keras = none, .flax = none},
          .planning = {.fused_attention = true}};
}
static Family qwen3_family() {
  return {.model_type = "qwen3",
          .base_prefix = kQwenPrefix,
          .architectures = answering_decoder_architectures<make_qwen3, kQwenPrefix, kQwenAnswersPrefix>("Qwen3"),
          .inputs = placed_text_inputs(FamilyInput::Export::kStates),
          .processors = {.tokenizer = "Qwen2",
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
                      .adapter_targets = {.ia3 = {"q_proj", "v_proj", "down_proj"},
                                          .ia3_feedforward = {"down_proj"},
                                          .norms = {"post_attention_layernorm"}}},
          .foreign = {.gguf = qwen3_gguf(), .keras = none, .flax = none},
          .planning = {.fused_attention = true}};
}

const RegisterFamilies kQwenFamilies{qwen2_family, qwen3_family};

}  // namespace transom
