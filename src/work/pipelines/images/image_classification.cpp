// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "base/error.h"
#include "work/pipelines/classification.h"
#include "work/pipelines/images/image_model.h"

namespace transom {
namespace {

class ImageClassification : public Pipeline {
 public:
  explicit ImageClassification(ImageModel model) : model_(std::move(model)), labels_(model_.model->labels()) {}
  Model* model() const override { return model_.model.get(); }

  // By falling score.
  std::vector<TaskResult> run(const std::vector<TaskInput>& inputs, const TaskOptions& options) const override {
    std::vector<TaskResult> results;
    for (const ImageModel::Row& row : model_.rows(inputs, "logits", batch_size_of(options)))
      results.emplace_back(classes(row.values, options));
    return results;
  }

 private:
  std::vector<ClassScore> classes(const std::vector<float>& logits, const TaskOptions& options) const {
    const std::string function = default_function(model_.model->config(), logits.size());
    auto classes = classes_of(logits, text_option(options, "function_to_apply", function), labels_);
    classes.resize(classes_wanted(options, classes.size(), 5));
    return classes;
  }

  ImageModel model_;
  std::vector<std::string> labels_;
};

TaskParameters image_classification_parameters() {
  return {
      {"top_k", TaskParameter::Type::kInteger, "number of classes to return; none: all", "5"},
      function_to_apply_parameter(),
  };
}

constexpr TaskRecord kImageClassification{.name = "image-classification",
                                          .example = "cat.png folder/",
                                          .input = InputKind::kImage,
                                          .result = ResultKind::kClasses,
                                          .parameters = image_classification_parameters,
                                          .load = load_image_task<ImageClassification>};
const RegisterTask kRegisterImageClassification(kImageClassification);

}  // namespace
}  // namespace transom
