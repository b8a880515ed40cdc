// SPDX-License-Identifier: Apache-2.0
// mBART (Liu et al., 2020) and mBART-50: BART with norms before the layers and behind each stack. Texts end with their
// language, and the decoder begins with it.
#include "models/families/bart/bart_body.h"

namespace transom {
namespace {

constexpr BartVariant kMBart{.norm_before = true, .final_norm = true, .wraps_labels = true};

FamilyInputs mbart_body_inputs() {
  FamilyInputs inputs = text_to_text_inputs();
  inputs.back().needed = false;
  return inputs;
}

}  // namespace

static Family mbart_family() {
  return {.model_type = "mbart",
          .base_prefix = "model",
          .architectures = {{"MBartModel", body_head({"feature-extraction"}), make_bart<kMBart, BartBare<true>>,
                             mbart_body_inputs()},
                            bart_generation("MBartForConditionalGeneration", make_bart<kMBart, BartGeneration>, true),
                            {"MBartForSequenceClassification", sequence_classification_head({"classification_head"}),
                             make_bart<kMBart, BartSequenceClassifier>, text_to_text_inputs(false)},
                            {"MBartForQuestionAnswering", question_answering_head({"qa_outputs"}),
                             make_bart<kMBart, BartAnswers>, text_to_text_inputs(false)}},
          .inputs = text_to_text_inputs(),
          .processors = {.tokenizer = "MBart",
                         .image_processor = none,
                         .positions = PositionLimit{{"max_position_embeddings"}},
                         .spaced_words = false,
                         .spans = false},
          .weights = bart_weights(),
          .foreign = {.gguf = none, .keras = none, .flax = none},
          .planning = {.fused_attention = false}};
}

const RegisterFamilies kMBartFamily{mbart_family};

}  // namespace transom
