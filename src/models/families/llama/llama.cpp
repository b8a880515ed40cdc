// SPDX-License-Identifier: Apache-2.0
// LLaMA 1 to 3 (Touvron et al., 2023; Dubey et al., 2024).
#include "models/shared/rope_decoder.h"

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

}  // namespace

Family llama_family() {
  return with_question_answering<make_llama, kAnswersPrefix>(decoder_family<make_llama, kLlamaPrefix>("llama", "Llama"),
                                                             "Llama");
}

}  // namespace transom
