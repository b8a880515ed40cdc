// SPDX-License-Identifier: Apache-2.0
#include "work/pipelines/images/image_model.h"

namespace transom {
namespace {

class ImageFeatureExtraction : public Pipeline {
 public:
  explicit ImageFeatureExtraction(ImageModel model) : model_(std::move(model)) {}
  Model* model() const override { return model_.model.get(); }

  // The last hidden states [1, T, D] or [1, C, H, W]; with `pool` the pooled output.
  std::vector<TaskResult> run(const std::vector<TaskInput>& inputs, const TaskOptions& options) const override {
    const char* name = flag_option(options, "pool", false) ? "pooler_output" : "last_hidden_state";
    std::vector<TaskResult> results;
    for (ImageModel::Row& row : model_.rows(inputs, name, batch_size_of(options)))
      results.emplace_back(FeatureArray{row.shape, std::move(row.values)});
    return results;
  }

 private:
  ImageModel model_;
};

TaskParameters image_feature_extraction_parameters() {
  return {
      {"pool", TaskParameter::Type::kFlag, "return the pooled output", "false"},
  };
}

constexpr TaskRecord kImageFeatureExtraction{.name = "image-feature-extraction",
                                             .example = "cat.png --pool --output vectors.npy",
                                             .input = InputKind::kImage,
                                             .result = ResultKind::kVectors,
                                             .parameters = image_feature_extraction_parameters,
                                             .load = load_image_task<ImageFeatureExtraction>};
const RegisterTask kRegisterImageFeatureExtraction(kImageFeatureExtraction);

}  // namespace
}  // namespace transom
