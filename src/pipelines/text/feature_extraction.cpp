// SPDX-License-Identifier: Apache-2.0
// Hidden states as features: of every token, or pooled into one vector a text.
#include <algorithm>

#include "base/error.h"
#include "base/json/json.h"
#include "pipelines/pipeline.h"
#include "pipelines/text/sentence_embedding.h"

namespace transom {
namespace {

class FeatureExtraction : public Pipeline {
 public:
  FeatureExtraction(TextModel model, const std::string& directory) : model_(std::move(model)), directory_(directory) {}
  TaskParameters parameters() const override { return feature_extraction_parameters(); }
  Model* model() const override { return model_.model.get(); }

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
    const auto encode = [&](size_t i) -> std::vector<Encoding> {
      return {model_.tokenizer.encode(texts[i], std::nullopt, options)};
    };
    std::vector<Json> results;
    for (const auto& rows :
         model_.rows(texts.size(), encode, {"last_hidden_state"}, TextModel::Unit::kToken, batch_size_of(parameters))) {
      const std::vector<float>& values = rows[0].outputs[0];
      const auto width = static_cast<ptrdiff_t>(values.size() / std::max<size_t>(1, rows[0].encoding.size()));
      Json tokens = Json::array();
      for (auto token = values.begin(); token != values.end(); token += width)
        tokens.push_back(std::vector<float>(token, token + width));
      results.push_back(Json::array({tokens}));
    }
    return results;
  }

  TextModel model_;
  std::filesystem::path directory_;
};

}  // namespace

TaskParameters feature_extraction_parameters() {
  return {
      {"pooling",
       TaskParameter::Type::kText,
       "one vector a text; auto: as modules.json says, else the mean",
       "none",
       {"none", "auto", "mean", "cls"}},
      {"truncation",
       TaskParameter::Type::kFlagOrWord,
       "cut texts that are longer than the model takes",
       "",
       {"longest_first", "only_first", "only_second", "do_not_truncate"}},
      {"tokenize_kwargs", TaskParameter::Type::kJson, "options of the tokenizer"},
      {"return_tensors",
       TaskParameter::Type::kFlagOrWord,
       "without effect: results are lists of numbers",
       "",
       {"pt", "np"}},
  };
}

std::unique_ptr<Pipeline> make_feature_extraction(TextModel model, const std::string& directory) {
  return std::make_unique<FeatureExtraction>(std::move(model), directory);
}

}  // namespace transom
