// SPDX-License-Identifier: Apache-2.0
// LayoutLMv3 and its heads. The body is in layoutlmv3_body.h. B batch, T words, D hidden.
#include "models/families/layoutlmv3/layoutlmv3_body.h"
#include "models/families/roberta/roberta_heads.h"
#include "models/family.h"
#include "models/shared/record_parts.h"

namespace transom {
namespace {

constexpr int64_t kLayersFrom = 10;  // of classes, for which tokens have two layers in place of one

using LayoutLMv3WithHead = EncoderModel<LayoutLMv3Body>;

class LayoutLMv3Model : public LayoutLMv3WithHead {
 public:
  LayoutLMv3Model(const Config& config, const Scope& scope) : LayoutLMv3WithHead(config, scope, "") {}

 protected:
  std::vector<std::string> input_names() const override {
    std::vector<std::string> names = LayoutLMv3Body::input_names("");
    names.pop_back();
    return names;
  }
  NamedTensors run(const NamedTensors& inputs, ForwardContext& context) const override {
    return with_head(inputs, context, [&](const Tensor& hidden) {
      return NamedTensors{{"last_hidden_state", hidden}};
    });
  }
};

// Two layers on each place.
class LayoutLMv3Head {
 public:
  LayoutLMv3Head(const Scope& scope, const LayoutLMv3Config& c, int64_t classes)
      : dense_(scope / "dense", c.hidden_size, c.hidden_size, c.new_weights()),
        out_proj_(scope / "out_proj", c.hidden_size, classes, c.new_weights()),
        dropout_(c.classifier_dropout) {}
  Tensor operator()(const Tensor& hidden, ForwardContext& context) const {
    return out_proj_(dropout_(tanh(dense_(dropout_(hidden, context), context)), context), context);
  }

 private:
  Linear dense_, out_proj_;
  Dropout dropout_;
};

class LayoutLMv3ForTokenClassification : public LayoutLMv3WithHead {
 public:
  LayoutLMv3ForTokenClassification(const Config& config, const Scope& scope)
      : LayoutLMv3WithHead(config, scope), dropout_(config_.hidden_dropout_prob) {
    if (config_.num_labels < kLayersFrom)
      classifier_.emplace(scope / "classifier", config_.hidden_size, config_.num_labels, config_.new_weights());
    else layers_.emplace(scope / "classifier", config_, config_.num_labels);
  }

 protected:
  NamedTensors run(const NamedTensors& inputs, ForwardContext& context) const override {
    return with_head(inputs, context, [&](const Tensor& hidden) {
      const Tensor ids = inputs.find("input_ids"), given = ids.defined() ? ids : inputs.at("inputs_embeds");
      const Tensor words = dropout_(slice(hidden, 1, 0, given.dim(1)), context);  // [B, T, D]
      return token_outputs(layers_ ? (*layers_)(words, context) : (*classifier_)(words, context), inputs, context);
    });
  }

 private:
  Dropout dropout_;
  std::optional<Linear> classifier_;
  std::optional<LayoutLMv3Head> layers_;
};

// Start and end of an answer among words and places of the picture.
class LayoutLMv3ForQuestionAnswering : public LayoutLMv3WithHead {
 public:
  LayoutLMv3ForQuestionAnswering(const Config& config, const Scope& scope)
      : LayoutLMv3WithHead(config, scope), qa_outputs_(scope / "qa_outputs", config_, 2) {}

 protected:
  std::vector<std::string> input_names() const override {
    std::vector<std::string> names = LayoutLMv3Body::input_names("start_positions");
    names.push_back("end_positions");
    return names;
  }
  NamedTensors run(const NamedTensors& inputs, ForwardContext& context) const override {
    return with_head(inputs, context,
                     [&](const Tensor& hidden) { return span_outputs(qa_outputs_(hidden, context), inputs, context); });
  }

 private:
  LayoutLMv3Head qa_outputs_;
};

FamilyInputs page_inputs() {
  FamilyInputs inputs = boxed_text_inputs(typed_text_inputs(2));
  FamilyInput pixels = sized_pixels();
  for (size_t axis : {1, 2}) pixels.axes[axis].fields = {"input_size"};
  pixels.needed = false;
  inputs.push_back(std::move(pixels));
  return inputs;
}

}  // namespace

static Family layoutlmv3_family() {
  return {.model_type = "layoutlmv3",
          .base_prefix = "layoutlmv3",
          .architectures = {{"LayoutLMv3Model", body_head({"feature-extraction"}), make_model<LayoutLMv3Model>},
                            {"LayoutLMv3ForSequenceClassification", sequence_classification_head({"classifier"}),
                             make_model<RobertaSequenceClassifier<LayoutLMv3Body>>},
                            {"LayoutLMv3ForTokenClassification", token_classification_head({"classifier"}),
                             make_model<LayoutLMv3ForTokenClassification>},
                            {"LayoutLMv3ForQuestionAnswering", question_answering_head({"qa_outputs"}),
                             make_model<LayoutLMv3ForQuestionAnswering>}},
          .inputs = page_inputs(),
          .processors = {.tokenizer = "LayoutLMv3",
                         .image_processor = "LayoutLMv3",
                         .positions = PositionLimit{{"max_position_embeddings"}, /*behind_padding=*/true},
                         .spaced_words = true,
                         .spans = false},
          .weights = {.lora_targets = {"query", "value"},
                      .late_parts = none,
                      .awq_activation = none,
                      .scaled_layers = none,
                      .opens_no_codes = false,
                      .multi_query = none},
          .foreign = {.gguf = none, .keras = none, .flax = none},
          .planning = {.fused_attention = false}};
}

const RegisterFamilies kLayoutLMv3Family{layoutlmv3_family};

}  // namespace transom
