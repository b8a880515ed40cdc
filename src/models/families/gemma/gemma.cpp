// SPDX-License-Identifier: Apache-2.0
// Gemma 1, 2 and 3 (text): LLaMA with scaled embeddings and norms whose scale counts from one. Gemma 2 adds norms
// behind each part, soft caps and alternating windows; Gemma 3 norms of queries and keys, and rotary frequencies of
// their own for layers with a window (Gemma Team, 2024 and 2025).
#include <cmath>

#include "base/json/json.h"
#include "models/shared/rope_decoder.h"

namespace transom {
namespace {

constexpr char kGemmaPrefix[] = "model";

RopeDecoderConfig gemma_config(const Config& given, std::string_view defaults) {
  const Config config = with_defaults(given, defaults);
  refuse_unless(config, "use_bidirectional_attention", "false");
  RopeDecoderConfig c(config);
  c.norm = RopeDecoderConfig::Norm::kRmsFromOne;
  c.embedding_scale = std::sqrt(static_cast<double>(c.hidden_size));
  c.query_key_value_bias = c.output_bias = config.get_bool("attention_bias", false);
  return c;
}

// What Gemma 2 and 3 share.
RopeDecoderConfig later(const Config& config, std::string_view defaults) {
  RopeDecoderConfig c = gemma_config(config, defaults);
  c.hidden_act = config.get_string("hidden_activation", "gelu_pytorch_tanh");
  c.attention_scale = 1 / std::sqrt(config.get_float("query_pre_attn_scalar", 256));
  c.norms_behind = true;
  return c;
}

// The soft cap of a field; null: none.
double soft_cap(const Config& config, const std::string& field, double otherwise) {
  return json_of(config).contains(field) ? config.get_float(field, 0) : otherwise;
}

std::unique_ptr<Decoder> make_gemma(const Config& config, const Scope& scope) {
  RopeDecoderConfig c = gemma_config(config, R"({"vocab_size": 256000, "hidden_size": 3072, "intermediate_size": 24576,
      "num_hidden_layers": 28, "num_attention_heads": 16, "num_key_value_heads": 16, "head_dim": 256,
      "max_position_embeddings": 8192, "pad_token_id": 0, "tie_word_embeddings": true})");
  // The first checkpoints say gelu and mean its approximation. (Transformers no longer reads hidden_activation here.)
  c.hidden_act = config.get_string("hidden_act", "gelu_pytorch_tanh");
  if (c.hidden_act == "gelu") c.hidden_act = "gelu_pytorch_tanh";
  c.rotary = {rotary_options(config, c.rotary_defaults())};
  return make_rope_decoder(c, scope);
}

std::unique_ptr<Decoder> make_gemma2(const Config& config, const Scope& scope) {
  RopeDecoderConfig c = later(config, R"({"vocab_size": 256000, "hidden_size": 2304, "intermediate_size": 9216,
      "num_hidden_layers": 26, "num_attention_heads": 8, "num_key_value_heads": 4, "head_dim": 256,
      "max_position_embeddings": 8192, "pad_token_id": 0, "tie_word_embeddings": true})");
  c.attention_soft_cap = soft_cap(config, "attn_logit_softcapping", 50);
  c.logit_soft_cap = soft_cap(config, "final_logit_softcapping", 30);
  const auto types = c.layer_types(config, [](const Config&, int64_t layer) { return layer % 2 == 0; });
  c.slide_where(config, types, int_or_none(config, "sliding_window", 4096));
  c.rotary = {rotary_options(config, c.rotary_defaults())};
  return make_rope_decoder(c, scope);
}

std::unique_ptr<Decoder> make_gemma3(const Config& config, const Scope& scope) {
  RopeDecoderConfig c = later(config, R"({"vocab_size": 262208, "hidden_size": 2304, "intermediate_size": 9216,
      "num_hidden_layers": 26, "num_attention_heads": 8, "num_key_value_heads": 4, "head_dim": 256,
      "max_position_embeddings": 131072, "pad_token_id": 0, "tie_word_embeddings": true})");
  c.head_norms = true;
  // Transformers reads attn_logit_softcapping of this model and does not use it.
  c.logit_soft_cap = soft_cap(config, "final_logit_softcapping", 0);
  const auto types = c.layer_types(config, [](const Config& given, int64_t layer) {
    const int64_t pattern = given.get_int("sliding_window_pattern", 6);
    return pattern > 0 && (layer + 1) % pattern != 0;
  });
  c.slide_where(config, types, int_or_none(config, "sliding_window", 4096));
  for (const std::string& type : types) {
    RotaryDefaults defaults = c.rotary_defaults(type == "sliding_attention" ? 10000 : 1000000);
    defaults.layer_type = type;
    c.rotary.push_back(rotary_options(config, defaults));
  }
  return make_rope_decoder(c, scope);
}

}  // namespace

Family gemma_family() {
  return {.model_type = "gemma",
          .base_prefix = kGemmaPrefix,
          .architectures = decoder_architectures<make_gemma, kGemmaPrefix>("Gemma"),
          .inputs = placed_text_inputs(),
          .processors = {.tokenizer = "Gemma",
                         .image_processor = none,
                         .positions = PositionLimit{{"max_position_embeddings"}},
                         .spaced_words = false,
                         .spans = false},
          .weights = {.lora_targets = {"q_proj", "v_proj"},
                      .late_parts = none,
                      .awq_activation = none,
                      .scaled_layers = none,
                      .opens_no_codes = false,
                      .multi_query = none},
          .foreign = {.gguf = GgufFamily{.architecture = "gemma",
                                         .model_class = "GemmaForCausalLM",
                                         .activations = {"gelu_pytorch_tanh", "gelu"}},
                      .keras = none,
                      .flax = FlaxNames{.without = {"GemmaForSequenceClassification", "GemmaForTokenClassification"},
                                        .scale = "weight"}},
          .planning = {.fused_attention = true}};
}
Family gemma2_family() {
  return {.model_type = "gemma2",
          .base_prefix = kGemmaPrefix,
          .architectures = decoder_architectures<make_gemma2, kGemmaPrefix>("Gemma2"),
          .inputs = placed_text_inputs(),
          .processors = {.tokenizer = "Gemma",
                         .image_processor = none,
                         .positions = PositionLimit{{"max_position_embeddings"}},
                         .spaced_words = false,
                         .spans = false},
          .weights = {.lora_targets = {"q_proj", "v_proj"},
                      .late_parts = none,
                      .awq_activation = none,
                      .scaled_layers = none,
                      .opens_no_codes = false,
                      .multi_query = none},
          .foreign = {.gguf = GgufFamily{.architecture = "gemma2",
                                         .model_class = "Gemma2ForCausalLM",
                                         .activations = {"gelu_pytorch_tanh"}},
                      .keras = none,
                      .flax = none},
          .planning = {.fused_attention = true, .local_share = 0.5}};
}
Family gemma3_text_family() {
  return {
      .model_type = "gemma3_text",
      .base_prefix = kGemmaPrefix,
      .architectures = {decoder_architecture<make_gemma3, kGemmaPrefix, DecoderHead::kNone>("Gemma3TextModel"),
                        decoder_architecture<make_gemma3, kGemmaPrefix, DecoderHead::kCausalLM>("Gemma3ForCausalLM"),
                        decoder_architecture<make_gemma3, kGemmaPrefix, DecoderHead::kSequenceClassification>(
                            "Gemma3TextForSequenceClassification")},
      .inputs = placed_text_inputs(),
      .processors = {.tokenizer = "Gemma",
                     .image_processor = none,
                     .positions = PositionLimit{{"max_position_embeddings"}},
                     .spaced_words = false,
                     .spans = false},
      .weights = {.lora_targets = {"q_proj", "v_proj"},
                  .late_parts = none,
                  .awq_activation = none,
                  .scaled_layers = none,
                  .opens_no_codes = false,
                  .multi_query = none},
      .foreign = {.gguf = GgufFamily{.architecture = "gemma3",
                                     .model_class = "Gemma3ForCausalLM",
                                     .activations = {"gelu_pytorch_tanh"}},
                  .keras = none,
                  .flax = none},
      .planning = {.fused_attention = true, .local_share = 5.0 / 6}};
}

}  // namespace transom
