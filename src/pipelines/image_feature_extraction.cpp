// SPDX-License-Identifier: Apache-2.0
#include "base/json.h"
#include "pipelines/image_model.h"

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
  std::vector<std::string> parameter_names() const override { return {"pool"}; }
  bool takes_images() const override { return true; }

  // The last hidden states [1, T, D] or [1, C, H, W] as lists; with `pool` the pooled output.
  Json run(const Json& input, const Json& parameters) const override {
    const NoGradient inference;
    const NamedTensors outputs = model_.model->forward({{"pixel_values", model_.pixel_values(input)}});
    const bool pool = bool_parameter(parameters, "pool", false);
    const Tensor& features = outputs.at(pool ? "pooler_output" : "last_hidden_state");
    size_t place = 0;
    return nested(features.to_vector<float>(), features.shape(), 0, place);
  }

 private:
  ImageModel model_;
};

}  // namespace

std::unique_ptr<Pipeline> make_image_feature_extraction(const std::string& directory, const LoadOptions& options) {
  return std::make_unique<ImageFeatureExtraction>(ImageModel::load(directory, options));
}

}  // namespace transom
