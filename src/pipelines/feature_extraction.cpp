// SPDX-License-Identifier: Apache-2.0
// Hidden states as features: of every token, or pooled into one vector a text.
#include "base/error.h"
#include "base/json.h"
#include "pipelines/sentence_embedding.h"

namespace transom {
namespace {

class FeatureExtraction : public Pipeline {
 public:
  FeatureExtraction(TextModel model, const std::string& directory) : model_(std::move(model)), directory_(directory) {}
  std::vector<std::string> parameter_names() const override { return {"pooling"}; }

  // [[[...]]]: one row of tokens of features; pooled, one list of features.
  Json run(const Json& input, const Json& parameters) const override { return run_all({input}, parameters)[0]; }

  std::vector<Json> run_all(const std::vector<Json>& inputs, const Json& parameters) const override {
    const Pooling pooling = Pooling::parse(string_parameter(parameters, "pooling", "none"), directory_);
    std::vector<std::string> texts;
    for (const Json& input : inputs) texts.push_back(text_input(input));
    std::vector<Json> results;
    if (pooling.kind == Pooling::Kind::kNone)
      for (const std::string& text : texts) results.push_back(token_features(text));
    else
      for (std::vector<float>& vector : embed(model_, texts, pooling)) results.emplace_back(std::move(vector));
    return results;
  }

 private:
  Json token_features(const std::string& text) const {
    const TextModel::Result result = model_(text);
    const Tensor hidden = result.outputs.at("last_hidden_state");  // [1, T, D]
    std::vector<float> values = hidden.to_vector<float>();
    const int64_t width = hidden.dim(2);
    values.resize(result.encoding.size() * static_cast<size_t>(width));
    Json rows = Json::array();
    for (auto row = values.begin(); row != values.end(); row += width)
      rows.push_back(std::vector<float>(row, row + width));
    return Json::array({rows});
  }

  TextModel model_;
  std::filesystem::path directory_;
};

}  // namespace

std::unique_ptr<Pipeline> make_feature_extraction(TextModel model, const std::string& directory) {
  return std::make_unique<FeatureExtraction>(std::move(model), directory);
}

}  // namespace transom
