// SPDX-License-Identifier: Apache-2.0
// Hidden states as features: of every token, or pooled as sentence-transformers does.
#include <cmath>

#include "base/error.h"
#include "base/files.h"
#include "base/json.h"
#include "pipelines/pipeline.h"

namespace transom {
namespace {

// What modules.json of sentence-transformers says.
struct Pooling {
  enum class Kind { kNone, kMean, kCls } kind = Kind::kNone;
  bool normalize = false;
};

Pooling read_pooling(const fs::path& directory) {
  const fs::path modules = directory / "modules.json";
  Pooling pooling;
  if (!fs::exists(modules)) {
    pooling.kind = Pooling::Kind::kMean;
    return pooling;
  }
  const Json list = read_json(modules);
  if (!list.is_array()) fail("{}: expected a list of modules", modules.string());
  for (const Json& module : list) {
    const std::string type = module.is_object() && module.contains("type") && module["type"].is_string()
                                 ? module["type"].get<std::string>()
                                 : "";
    if (type.ends_with("Normalize")) pooling.normalize = true;
    if (!type.ends_with("Pooling")) continue;
    const std::string path = module.value("path", std::string("1_Pooling"));
    if (path.find("..") != path.npos || path.starts_with("/"))
      fail("{}: the path {} leads out of the directory", modules.string(), quoted(path));
    const Json config = read_json(directory / path / "config.json");
    const auto mode = [&](const char* name) { return config.contains(name) && config[name] == true; };
    if (mode("pooling_mode_cls_token") || config.value("pooling_mode", Json()) == "cls")
      pooling.kind = Pooling::Kind::kCls;
    else if (mode("pooling_mode_mean_tokens") || config.value("pooling_mode", Json()) == "mean")
      pooling.kind = Pooling::Kind::kMean;
    else fail("{}: expected pooling by cls or mean", (directory / path / "config.json").string());
  }
  return pooling;
}

class FeatureExtraction : public Pipeline {
 public:
  FeatureExtraction(TextModel model, const std::string& directory) : model_(std::move(model)), directory_(directory) {}
  std::vector<std::string> parameter_names() const override { return {"pooling"}; }

  // [[[...]]]: one row of tokens of features; pooled, one list of features.
  Json run(const Json& input, const Json& parameters) const override {
    const TextModel::Result result = model_(text_input(input));
    const Tensor& hidden = result.outputs.at("last_hidden_state");  // [1, T, D]
    const std::vector<float> values = hidden.to_vector<float>();
    const auto length = static_cast<size_t>(hidden.dim(1)), width = static_cast<size_t>(hidden.dim(2));
    const Pooling pooling = pooling_of(string_parameter(parameters, "pooling", "none"));
    if (pooling.kind == Pooling::Kind::kNone) {
      Json rows = Json::array();
      for (size_t t = 0; t < length; ++t)
        rows.push_back(std::vector<float>(values.begin() + static_cast<ptrdiff_t>(t * width),
                                          values.begin() + static_cast<ptrdiff_t>((t + 1) * width)));
      return Json::array({rows});
    }
    const size_t rows = pooling.kind == Pooling::Kind::kCls ? 1 : length;
    std::vector<double> sum(width, 0);
    for (size_t t = 0; t < rows; ++t)
      for (size_t d = 0; d < width; ++d) sum[d] += values[t * width + d];
    double square = 0;
    for (double& x : sum) x /= static_cast<double>(rows), square += x * x;
    if (pooling.normalize)
      for (double& x : sum) x /= std::max(std::sqrt(square), 1e-12);
    return std::vector<float>(sum.begin(), sum.end());
  }

 private:
  Pooling pooling_of(const std::string& name) const {
    if (name == "none") return {};
    if (name == "mean") return {Pooling::Kind::kMean};
    if (name == "cls") return {Pooling::Kind::kCls};
    if (name == "auto") return read_pooling(directory_);
    fail("pooling: expected none, auto, mean or cls, found {}", quoted(name));
  }

  TextModel model_;
  fs::path directory_;
};

}  // namespace

std::unique_ptr<Pipeline> make_feature_extraction(TextModel model, const std::string& directory) {
  return std::make_unique<FeatureExtraction>(std::move(model), directory);
}

}  // namespace transom
