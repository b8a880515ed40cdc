// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "base/error.h"
#include "base/json/json.h"
#include "pipelines/classification.h"
#include "pipelines/images/image_model.h"

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
      results.push_back(answer(row.values, parameters));
    return results;
  }

 private:
  Json answer(const std::vector<float>& logits, const Json& parameters) const {
    const std::string function = default_function(model_.model->config(), logits.size());
    auto classes = classes_of(logits, string_parameter(parameters, "function_to_apply", function), labels_);
    classes.resize(classes_wanted(parameters, classes.size(), 5));
    Json result = Json::array();
    for (const auto& [label, score] : classes) result.push_back({{"label", label}, {"score", score}});
    return result;
  }

  ImageModel model_;
  std::vector<std::string> labels_;
};

}  // namespace

TaskParameters image_classification_parameters() {
  return {
      {"top_k", TaskParameter::Type::kInteger, "number of classes to return; none: all", "5"},
      function_to_apply_parameter(),
  };
}

std::unique_ptr<Pipeline> make_image_classification(const std::string& directory, const LoadOptions& options) {
  return std::make_unique<ImageClassification>(ImageModel::load(directory, options));
}

}  // namespace transom
