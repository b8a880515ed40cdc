// SPDX-License-Identifier: Apache-2.0
#include "models/head_traits.h"

namespace transom {

HeadTraits head_traits(std::string_view architecture) {
  const bool causal = architecture.ends_with("ForCausalLM");
  const bool both = architecture.ends_with("ForConditionalGeneration") || architecture.ends_with("MTModel");
  return {.predicts_next_token = causal || architecture.ends_with("LMHeadModel"),
          .counts_first_label = !causal,
          .is_encoder_decoder = both,
          .generates_text = both || architecture.find("LM") != architecture.npos,
          .classifies = architecture.ends_with("Classification"),
          .answers_questions = architecture.ends_with("QuestionAnswering"),
          .aligns_without_labels = architecture.ends_with("ForCTC")};
}

}  // namespace transom
