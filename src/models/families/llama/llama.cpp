// SPDX-License-Identifier: Apache-2.0
// LLaMA 1 to 3 (Touvron et al., 2023; Dubey et al., 2024).
#include "models/shared/rope_decoder.h"
#include "models/shared/rope_decoder_gguf.h"

namespace transom {
namespace {

constexpr char kLlamaPrefix[] = "model", kAnswersPrefix[] = "transformer";  // as ForQuestionAnswering has it

std::unique_ptr<Decoder> make_llama(const Config& config, const Scope& scope) {
  RopeDecoderConfig c(config);
  c.query_key_value_bias = c.output_bias = config.get_bool("attention_bias", false);
  c.mlp_bias = config.get_bool("mlp_bias", false);
  c.rotary = {rotary_options(config, c.rotary_defaults())};
  return make_rope_decoder(c, scope);
}

GgufFamily llama_gguf() {
  GgufFamily gguf = gguf_decoder("llama", "LlamaForCausalLM");
  gguf.names = gguf_llama_names();
  gguf.biases = {{"attention_bias", "attn_q"}, {"mlp_bias", "ffn_up"}};
  return gguf;
}

}  // namespace

static Family llama_family() {
  return {.model_type = "llama",
          .base_prefix = kLlamaPrefix,
          .architectures = answering_decoder_architectures<make_llama, kLlamaPrefix, kAnswersPrefix>("Llama"),
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
          .foreign = {.gguf = llama_gguf(),
                      .keras = none,
                      .flax = FlaxNames{.without = {"LlamaForSequenceClassification", "LlamaForTokenClassification",
                                                    "LlamaForQuestionAnswering"},
                                        .scale = "weight"}},
          .planning = {.fused_attention = true}};
}

const RegisterFamilies kLlamaFamily{llama_family};

}  // namespace transom
