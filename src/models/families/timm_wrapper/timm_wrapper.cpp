// SPDX-License-Identifier: Apache-2.0
// Networks of timm in the checkpoints of Transformers' timm wrapper, and in those that timm itself writes.
#include <algorithm>
#include <cmath>
#include <optional>
#include <vector>

#include "base/error.h"
#include "models/families/timm_wrapper/timm_network.h"
#include "models/family.h"
#include "models/nn/layers.h"

namespace transom {
namespace {

std::vector<TimmArchitectures>& timm_architectures() {
  static std::vector<TimmArchitectures> all;
  return all;
}

class TimmWrapperForImageClassification : public Model {
 public:
  TimmWrapperForImageClassification(const Config& config, const Scope& scope)
      : problem_type_(config.get_string("problem_type", "")), timm_model_(make_timm_network(config, scope)) {
    const TimmNetwork::Facts facts = timm_model_->facts();
    if (facts.num_classes == 0) return;  // features are the answer then
    classifier_.emplace(scope / facts.classifier, facts.width, facts.num_classes,
                        Linear::Options{.deviation = 1 / std::sqrt(3.0 * static_cast<double>(facts.width))});
  }

 protected:
  std::vector<std::string> input_names() const override { return {"pixel_values", "labels"}; }
  NamedTensors run(const NamedTensors& inputs, ForwardContext& context) const override {
    const FeatureMaps maps = (*timm_model_)(image_input(inputs, timm_model_->facts().in_chans), context);
    const Tensor logits = classifier_ ? (*classifier_)(maps.pooled, context) : maps.pooled;
    return with_states(sequence_classification_outputs(logits, inputs, problem_type_, context), maps, context);
  }

 private:
  std::string problem_type_;
  std::unique_ptr<TimmNetwork> timm_model_;
  std::optional<Linear> classifier_;
};

class TimmWrapperModel : public Model {
 public:
  TimmWrapperModel(const Config& config, const Scope& scope) : timm_model_(make_timm_network(config, scope)) {}

 protected:
  std::vector<std::string> input_names() const override { return {"pixel_values"}; }
  NamedTensors run(const NamedTensors& inputs, ForwardContext& context) const override {
    const FeatureMaps maps = (*timm_model_)(image_input(inputs, timm_model_->facts().in_chans), context);
    return with_states({{"last_hidden_state", maps.last_hidden_state}, {"pooler_output", maps.pooled}}, maps, context);
  }

 private:
  std::unique_ptr<TimmNetwork> timm_model_;
};

FamilyHead timm_head() {
  // By the names that networks have for it. Beside head.fc some have a norm, which is the body's.
  FamilyHead head = image_classification_head({"classifier", "head.fc", "head.weight", "head.bias", "fc"});
  head.classes = "num_classes";
  return head;
}

// Some networks take pictures of one size; any will do where model_args name none.
FamilyInput timm_pixels() {
  FamilyInput pixels = pixels_of_any_size("model_args.in_chans");
  pixels.axes[1].fields = {"model_args.img_size.0"};
  pixels.axes[2].fields = {"model_args.img_size.1"};
  return pixels;
}

}  // namespace

RegisterTimm::RegisterTimm(TimmArchitectures architectures) {
  timm_architectures().push_back(std::move(architectures));
}

std::unique_ptr<TimmNetwork> make_timm_network(const Config& config, const Scope& scope) {
  const std::string name = TimmArguments(config).name;
  std::vector<std::string_view> examples;
  for (const TimmArchitectures& known : timm_architectures()) {
    if (known.knows(name)) return known.make(config, scope);
    examples.push_back(known.examples);
  }
  std::sort(examples.begin(), examples.end());
  fail(ErrorKind::kUnsupported, "{}: architecture: {} is not known; of timm there are {}", config.where(), quoted(name),
       fmt::join(examples, "; "));
}

static Family timm_wrapper_family() {
  return {.model_type = "timm_wrapper",
          .base_prefix = "timm_model",
          .architectures = {{"TimmWrapperForImageClassification", timm_head(),
                             make_model<TimmWrapperForImageClassification>},
                            {"TimmWrapperModel",
                             body_head({"image-feature-extraction"}, {"last_hidden_state", "pooler_output"}),
                             make_model<TimmWrapperModel>}},
          .inputs = {timm_pixels()},
          .mark = "pretrained_cfg",
          .processors =
              {.tokenizer = none, .image_processor = none, .positions = none, .spaced_words = false, .spans = false},
          .weights = {.lora_targets = none,
                      .late_parts = none,
                      .awq_activation = none,
                      .scaled_layers = none,
                      .opens_no_codes = false,
                      .multi_query = none},
          .foreign = {.gguf = none, .keras = none, .flax = none},
          .planning = {.fused_attention = false}};
}

const RegisterFamilies kTimmWrapperFamily{timm_wrapper_family};

}  // namespace transom
