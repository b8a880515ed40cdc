// SPDX-License-Identifier: Apache-2.0
#include "base/json/json.h"
#include "pipelines/images/image_model.h"

namespace transom {
namespace {

// The values as nested lists.
Json nested(const std::vector<float>& values, const Shape& shape, size_t axis, size_t& place) {
  if (axis == shape.size()) return values[place++];
  Json list = Json::array();
  for (int64_t i = 0; i < shape[axis]; ++i) list.push_back(nested(values, shape, axis + 1, place));
  return list;
}

class ImageFeatureExtraction : public Pipeline {
 public:
  explicit ImageFeatureExtraction(ImageModel model) : model_(std::move(model)) {}
  TaskParameters parameters() const override { return image_feature_extraction_parameters(); }
  Model* model() const override { return model_.model.get(); }
  bool takes_images() const override { return true; }

  // The last hidden states [1, T, D] or [1, C, H, W] as lists; with `pool` the pooled output.
  Json run(const Json& input, const Json& parameters) const override { return run_all({input}, parameters)[0]; }

  std::vector<Json> run_all(const std::vector<Json>& inputs, const Json& parameters) const override {
    const char* name = bool_parameter(parameters, "pool", false) ? "pooler_output" : "last_hidden_state";
    std::vector<Json> results;
    for (const ImageModel::Row& row : model_.rows(inputs, name, batch_size_of(parameters))) {
      size_t place = 0;
      results.push_back(nested(row.values, row.shape, 0, place));
    }
    return results;
  }

 private:
  ImageModel model_;
};

}  // namespace

TaskParameters image_feature_extraction_parameters() {
  return {
      {"pool", TaskParameter::Type::kFlag, "return the pooled output", "false"},
  };
}

std::unique_ptr<Pipeline> make_image_feature_extraction(const std::string& directory, const LoadOptions& options) {
  return std::make_unique<ImageFeatureExtraction>(ImageModel::load(directory, options));
}

}  // namespace transom
