// SPDX-License-Identifier: Apache-2.0
// StarCoder 2 (Lozhkov et al., 2024): LLaMA's attention with biases and a sliding window, layer norms, and a plain
// feed-forward layer.
#include "models/shared/rope_decoder.h"
#include "models/shared/rope_decoder_gguf.h"

namespace transom {
namespace {

constexpr char kStarcoder2Prefix[] = "model";

std::unique_ptr<Decoder> make_starcoder2(const Config& given, const Scope& scope) {
  const Config config = with_defaults(given, R"({"vocab_size": 49152, "hidden_size": 3072, "intermediate_size": 12288,
      "num_hidden_layers": 30, "num_attention_heads": 24, "num_key_value_heads": 2, "max_position_embeddings": 4096,
      "hidden_act": "gelu_pytorch_tanh", "initializer_range": 0.018042, "tie_word_embeddings": true})");
  RopeDecoderConfig c(config);
  c.norm = RopeDecoderConfig::Norm::kLayerNorm;
  c.norm_eps = config.get_float("norm_epsilon", 1e-5);
  c.gated = false;
  c.query_key_value_bias = c.output_bias = c.mlp_bias = config.get_bool("use_bias", true);
  c.residual_dropout = config.get_float("residual_dropout", 0);
  c.embedding_dropout = config.get_float("embedding_dropout", 0);
  c.sliding_windows.assign(c.sliding_windows.size(), int_or_none(config, "sliding_window", 0));
  c.rotary = {rotary_options(config, c.rotary_defaults())};
  return make_rope_decoder(c, scope);
}

GgufFamily starcoder2_gguf() {
  GgufFamily gguf = gguf_decoder("starcoder2", "Starcoder2ForCausalLM");
  gguf.activations = {"gelu_pytorch_tanh"};
  gguf.names = gguf_decoder_names(
      {gguf_attention_names(), gguf_norm_names(), {{"ffn_up", "mlp.c_fc"}, {"ffn_down", "mlp.c_proj"}}});
  gguf_key(gguf.keys, "attention.layer_norm_rms_epsilon") = {.key = "attention.layer_norm_epsilon",
                                                             .field = "norm_epsilon",
                                                             .kind = GgufKey::Kind::kNumber,
                                                             .written = {GgufUsual::Is::kNumber, 1e-5}};
  gguf.keys.push_back({.key = "attention.sliding_window",
                       .field = "sliding_window",
                       .kind = GgufKey::Kind::kCountIfAny,
                       .written = {GgufUsual::Is::kNothing},
                       .read = {GgufUsual::Is::kNull}});
  gguf.stands_for = R"({"hidden_act": "gelu_pytorch_tanh"})";
  gguf.biases = {{"use_bias", "attn_q"}};
  return gguf;
}

}  // namespace

static Family starcoder2_family() {
  return {.model_type = "starcoder2",
          .base_prefix = kStarcoder2Prefix,
          .architectures = decoder_architectures<make_starcoder2, kStarcoder2Prefix>("Starcoder2"),
          .inputs = placed_text_inputs(FamilyInput::Export::kStates),
          .processors = {.tokenizer = "GPT2",
                         .image_processor = none,
                         .positions = PositionLimit{{"max_position_embeddings"}},
                         .spaced_words = false,
                         .spans = false},
          .weights = {.lora_targets = none,
                      .late_parts = none,
                      .awq_activation = ScaledActivation{"c_fc", "act"},
                      .scaled_layers = none,
                      .opens_no_codes = false,
                      .multi_query = none},
          .foreign = {.gguf = starcoder2_gguf(), .keras = none, .flax = none},
          .planning = {.fused_attention = true}};
}

const RegisterFamilies kStarcoder2Family{starcoder2_family};

}  // namespace transom
