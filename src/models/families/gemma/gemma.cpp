// SPDX-License-Identifier: Apache-2.0
// Gemma 1, 2 and 3 (text): LLaMA with scaled embeddings and norms whose scale counts from one. Gemma 2 adds norms
// behind each part, soft caps and alternating windows; Gemma 3 norms of queries and keys, and rotary frequencies of
// their own for layers with a window (Gemma Team, 2024 and 2025).
#include <cmath>

#include "base/json/json.h"
#include "models/shared/rope_decoder.h"
#include "models/shared/rope_decoder_gguf.h"

namespace transom {
namespace {

constexpr char kGemmaPrefix[] = "model";

RopeDecoderConfig gemma_config(const Config& given, std::string_view defaults) {
  const Config config = with_defaults(given, defaults);
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
  refuse_unless(config, "use_bidirectional_attention", "false");
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
  refuse_unless(config, "use_bidirectional_attention", "false");
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
  // EmbeddingGemma: an encoder, whose window lies half before a token and half behind it.
  c.bidirectional = config.get_bool("use_bidirectional_attention", false);
  const auto types = c.layer_types(config, [](const Config& given, int64_t layer) {
    const int64_t pattern = given.get_int("sliding_window_pattern", 6);
    return pattern > 0 && (layer + 1) % pattern != 0;
  });
  const int64_t window = int_or_none(config, "sliding_window", 4096);
  c.slide_where(config, types, c.bidirectional && window > 0 ? window / 2 + 1 : window);
  for (const std::string& type : types) {
    RotaryDefaults defaults = c.rotary_defaults(type == "sliding_attention" ? 10000 : 1000000);
    defaults.layer_type = type;
    c.rotary.push_back(rotary_options(config, defaults));
  }
  return make_rope_decoder(c, scope);
}

// What all three share in GGUF: scales of norms count from nought there.
GgufFamily gguf_of_gemma(const std::string& architecture, const std::string& model_class) {
  GgufFamily gguf = gguf_decoder(architecture, model_class);
  gguf.activations = {"gelu_pytorch_tanh"};
  gguf.biases = {{"attention_bias", "attn_q"}};
  for (const char* key : {"attention.key_length", "attention.value_length"})
    gguf_key(gguf.keys, key).written = {GgufUsual::Is::kNumber, 256};
  return gguf;
}

void count_norms_from_one(GgufNames& names) {
  for (std::vector<GgufName>* rules : {&names.whole, &names.stacks[0].rules})
    for (GgufName& rule : *rules)
      if (rule.gguf.ends_with("norm")) rule.change = GgufChange::kOneMore;
}

GgufFamily gemma_gguf() {
  GgufFamily gguf = gguf_of_gemma("gemma", "GemmaForCausalLM");
  gguf.activations.push_back("gelu");
  count_norms_from_one(gguf.names);
  gguf.stands_for = R"({"hidden_act": "gelu_pytorch_tanh"})";
  return gguf;
}

GgufFamily later_gemma_gguf(const std::string& architecture, const std::string& model_class, double window) {
  GgufFamily gguf = gguf_of_gemma(architecture, model_class);
  gguf.names = gguf_decoder_names({gguf_attention_names(),
                                   gguf_gated_names(),
                                   {{"attn_norm", "input_layernorm"},
                                    {"post_attention_norm", "post_attention_layernorm"},
                                    {"ffn_norm", "pre_feedforward_layernorm"},
                                    {"post_ffw_norm", "post_feedforward_layernorm"}}});
  count_norms_from_one(gguf.names);
  gguf.stands_for = R"({"hidden_activation": "gelu_pytorch_tanh"})";
  gguf.keys.push_back({.key = "attention.sliding_window",
                       .field = "sliding_window",
                       .written = {GgufUsual::Is::kNumber, 4096},
                       .read = {GgufUsual::Is::kNumber, window}});
  return gguf;
}

GgufFamily gemma2_gguf() {
  GgufFamily gguf = later_gemma_gguf("gemma2", "Gemma2ForCausalLM", 4096);
  // llama.cpp takes these two where a file has none.
  for (const auto& [field, usual] : {std::pair{"attn_logit_softcapping", 50.0}, {"final_logit_softcapping", 30.0}})
    gguf.keys.push_back({.key = field,
                         .field = field,
                         .kind = GgufKey::Kind::kNumberAbove0,
                         .written = {GgufUsual::Is::kNumber, usual},
                         .read = {GgufUsual::Is::kNull}});
  gguf.windows = GgufWindows{.pattern = 2};
  gguf.layers_of_largest = 46;
  return gguf;
}

GgufFamily gemma3_gguf() {
  GgufFamily gguf = later_gemma_gguf("gemma3", "Gemma3ForCausalLM", 1024);
  gguf.keys.push_back({.key = "final_logit_softcapping",
                       .field = "final_logit_softcapping",
                       .kind = GgufKey::Kind::kNumberIfAny,
                       .written = {GgufUsual::Is::kNothing},
                       .read = {GgufUsual::Is::kNull}});
  gguf.windows = GgufWindows{.pattern = 6, .is_written = true};
  gguf.layers_of_largest = 62;
  gguf.rotary = GgufRotary{.theta = 1000000, .set_by_layers = true};
  return gguf;
}

}  // namespace

static Family gemma_family() {
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
                      .multi_query = none,
                      .adapter_targets = {.ia3 = {"q_proj", "v_proj", "down_proj"},
                                          .ia3_feedforward = {"down_proj"},
                                          .norms = {"input_layernorm", "post_attention_layernorm", "norm"}}},
          .foreign = {.gguf = gemma_gguf(),
                      .keras = none,
                      .flax = FlaxNames{.without = {"GemmaForSequenceClassification", "GemmaForTokenClassification"},
                                        .scale = "weight"}},
          .planning = {.fused_attention = true}};
}
static Family gemma2_family() {
  return {
      .model_type = "gemma2",
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
                  .multi_query = none,
                  .adapter_targets = {.ia3 = {"q_proj", "v_proj", "down_proj"},
                                      .ia3_feedforward = {"down_proj"},
                                      .norms = {"input_layernorm", "post_attention_layernorm",
                                                "pre_feedforward_layernorm", "post_feedforward_layernorm", "norm"}}},
      .foreign = {.gguf = gemma2_gguf(), .keras = none, .flax = none},
      .planning = {.fused_attention = true, .local_share = 0.5}};
}
static Family gemma3_text_family() {
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
                  .multi_query = none,
                  .adapter_targets = {.ia3 = {"q_proj", "v_proj", "down_proj"},
                                      .ia3_feedforward = {"down_proj"},
                                      .norms = {"input_layernorm", "post_attention_layernorm",
                                                "pre_feedforward_layernorm", "post_feedforward_layernorm", "norm"}}},
      .foreign = {.gguf = gemma3_gguf(), .keras = none, .flax = none},
      .planning = {.fused_attention = true, .local_share = 5.0 / 6}};
}

const RegisterFamilies kGemmaFamilies{gemma_family, gemma2_family, gemma3_text_family};

}  // namespace transom
