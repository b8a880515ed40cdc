// SPDX-License-Identifier: Apache-2.0
// BART (Lewis et al., 2020): a post-norm transformer with learned positions, which start at 2, and a norm behind the
// embeddings.
#include "models/families/bart/bart_body.h"

namespace transom {
namespace {

constexpr BartVariant kBart{};

// The body decodes the text itself where nothing is given; files that optimum-onnx exports take both.
FamilyInputs bart_body_inputs() {
  FamilyInputs inputs = text_to_text_inputs();
  inputs.back().needed = false;
  return inputs;
}

}  // namespace

static Family bart_family() {
  return {.model_type = "bart",
          .base_prefix = "model",
          .architectures = {{"BartModel", body_head({"feature-extraction"}), make_bart<kBart, BartBare<true>>,
                             bart_body_inputs()},
                            bart_generation("BartForConditionalGeneration", make_bart<kBart, BartGeneration>, true),
                            {"BartForSequenceClassification", sequence_classification_head({"classification_head"}),
                             make_bart<kBart, BartSequenceClassifier>, text_to_text_inputs(false)},
                            {"BartForQuestionAnswering", question_answering_head({"qa_outputs"}),
                             make_bart<kBart, BartAnswers>, text_to_text_inputs(false)}},
          .inputs = text_to_text_inputs(),
          .processors = {.tokenizer = "Bart",
                         .image_processor = none,
                         .positions = PositionLimit{{"max_position_embeddings"}},
                         .spaced_words = false,
                         .spans = false},
          .weights = bart_weights(),
          .foreign = {.gguf = none,
                      .keras = KerasNames{.body = "model", .joint = ".", .without = {"BartForQuestionAnswering"}},
                      .flax = FlaxNames{}},
          .planning = {.fused_attention = false}};
}

const RegisterFamilies kBartFamily{bart_family};

}  // namespace transom
