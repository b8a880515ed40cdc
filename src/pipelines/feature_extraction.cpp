// SPDX-License-Identifier: Apache-2.0
// Hidden states as features: of every token, or pooled into one vector a text.
#include <algorithm>

#include "base/error.h"
#include "base/json.h"
#include "pipelines/sentence_embedding.h"

namespace transom {
namespace {

class FeatureExtraction : public Pipeline {
 public:
  FeatureExtraction(TextModel model, const std::string& directory) : model_(std::move(model)), directory_(directory) {}
  std::vector<std::string> parameter_names() const override {
    return {"pooling", "truncation", "tokenize_kwargs", "return_tensors"};
  }

  // [[[...]]]: one row of tokens of features; pooled, one list of features.
  Json run(const Json& input, const Json& parameters) const override { return run_all({input}, parameters)[0]; }

  std::vector<Json> run_all(const std::vector<Json>& inputs, const Json& parameters) const override {
    const Pooling pooling = Pooling::parse(string_parameter(parameters, "pooling", "none"), directory_);
    std::vector<std::string> texts;
    for (const Json& input : inputs) texts.push_back(text_input(input));
    if (pooling.kind == Pooling::Kind::kNone) return token_features(texts, parameters);
    std::vector<Json> results;
    for (std::vector<float>& vector : embed(model_, texts, pooling)) results.emplace_back(std::move(vector));
    return results;
  }

 private:
  std::vector<Json> token_features(const std::vector<std::string>& texts, const Json& parameters) const {
    Json given = parameters.value("tokenize_kwargs", Json::object());
    if (!given.is_object()) fail("tokenize_kwargs: expected an object");
    if (parameters.contains("truncation")) given["truncation"] = parameters["truncation"];
    const EncodeOptions options = encode_options(given, model_);
    std::vector<Encoding> encodings;
    for (const std::string& text : texts) encodings.push_back(model_.tokenizer.encode(text, std::nullopt, options));
    const auto all = model_.rows(encodings, "last_hidden_state", batch_size_of(parameters));
    std::vector<Json> results;
    for (size_t i = 0; i < all.size(); ++i) {
      const auto width = static_cast<ptrdiff_t>(all[i].size() / std::max<size_t>(1, encodings[i].size()));
      Json rows = Json::array();
      for (auto row = all[i].begin(); row != all[i].end(); row += width)
        rows.push_back(std::vector<float>(row, row + width));
      results.push_back(Json::array({rows}));
    }
    return results;
  }

  TextModel model_;
  std::filesystem::path directory_;
};

}  // namespace

std::unique_ptr<Pipeline> make_feature_extraction(TextModel model, const std::string& directory) {
  return std::make_unique<FeatureExtraction>(std::move(model), directory);
}

}  // namespace transom
