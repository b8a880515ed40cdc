// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "base/error.h"
#include "base/json.h"
#include "pipelines/images/image_model.h"
#include "pipelines/text/classification.h"

namespace transom {
namespace {

class ImageClassification : public Pipeline {
 public:
  explicit ImageClassification(ImageModel model) : model_(std::move(model)), labels_(model_.model->labels()) {}
  TaskParameters parameters() const override { return image_classification_parameters(); }
  Model* model() const override { return model_.model.get(); }
  bool takes_images() const override { return true; }

  // A list of {"label", "score"} by falling score.
  Json run(const Json& input, const Json& parameters) const override { return run_all({input}, parameters)[0]; }

  std::vector<Json> run_all(const std::vector<Json>& inputs, const Json& parameters) const override {
    std::vector<Json> results;
    for (const ImageModel::Row& row : model_.rows(inputs, "logits", batch_size_of(parameters)))
      results.push_back(classes_of(row.values, parameters));
    return results;
  }

 private:
  Json classes_of(const std::vector<float>& logits, const Json& parameters) const {
    const std::vector<double> scores = scores_of(
        logits,
        string_parameter(parameters, "function_to_apply", default_function(model_.model->config(), logits.size())));
    const bool all = parameters.contains("top_k") && parameters["top_k"].is_null();
    const int64_t count = all ? static_cast<int64_t>(scores.size()) : int_parameter(parameters, "top_k", 5);
    if (count < 1) fail("top_k: expected a number above 0, found {}", count);
    Json result = Json::array();
    for (const size_t i : falling_order(scores)) {
      if (static_cast<int64_t>(result.size()) == count) break;
      result.push_back(
          {{"label", i < labels_.size() ? labels_[i] : "LABEL_" + std::to_string(i)}, {"score", scores[i]}});
    }
    return result;
  }

  ImageModel model_;
  std::vector<std::string> labels_;
};

}  // namespace

TaskParameters image_classification_parameters() {
  return {
      {"top_k", TaskParameter::Type::kInteger, "number of classes to return; none: all", "5"},
      {"function_to_apply",
       TaskParameter::Type::kText,
       "what turns logits into scores (default: as the configuration says)",
       "",
       {"softmax", "sigmoid", "none"}},
  };
}

std::unique_ptr<Pipeline> make_image_classification(const std::string& directory, const LoadOptions& options) {
  return std::make_unique<ImageClassification>(ImageModel::load(directory, options));
}

}  // namespace transom
