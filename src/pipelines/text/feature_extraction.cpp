// SPDX-License-Identifier: Apache-2.0
// Hidden states as features: of every token, or pooled into one vector a text.
#include <algorithm>

#include "base/error.h"
#include "base/json/json.h"
#include "pipelines/pipeline.h"
#include "pipelines/text/sentence_model.h"

namespace transom {
namespace {

class FeatureExtraction : public Pipeline {
 public:
  // `tokenizer` is that of the model alone, for the states of its tokens.
  FeatureExtraction(SentenceModel model, Tokenizer tokenizer)
      : model_(std::move(model)), tokenizer_(std::move(tokenizer)) {}
  TaskParameters parameters() const override { return feature_extraction_parameters(); }
  Model* model() const override { return model_.text().model.get(); }

  // [[[...]]]: one row of tokens of features; pooled, one list of features.
  Json run(const Json& input, const Json& parameters) const override { return run_all({input}, parameters)[0]; }

  std::vector<Json> run_all(const std::vector<Json>& inputs, const Json& parameters) const override {
    const std::string pooling = string_parameter(parameters, "pooling", "none");
    std::vector<std::string> texts;
    for (const Json& input : inputs) texts.push_back(text_input(input));
    expect_used(parameters, pooling);
    if (pooling == "none") return token_features(texts, parameters);
    std::vector<Json> results;
    for (std::vector<float>& vector : model_.embed(texts, embedding_options(parameters, pooling, model_)))
      results.emplace_back(std::move(vector));
    return results;
  }

 private:
  // What is of vectors of tokens, or of texts, alone.
  static void expect_used(const Json& parameters, const std::string& pooling) {
    refuse_without_effect(parameters, {"return_tensors"}, "here: results are lists of numbers");
    if (pooling == "none")
      refuse_without_effect(parameters, names_of(embedding_parameters()), "without pooling; add pooling auto");
    else
      refuse_without_effect(parameters, {"truncation", "tokenize_kwargs"},
                            "with pooling: texts are cut at max_seq_length, as sentence-transformers does");
  }

  std::vector<Json> token_features(const std::vector<std::string>& texts, const Json& parameters) const {
    Json given = parameters;
    Json own = given.value("tokenize_kwargs", Json::object());
    if (parameters.contains("truncation") && own.is_object()) {
      if (own.contains("truncation")) fail(ErrorKind::kUsage, "truncation: is in tokenize_kwargs too");
      own["truncation"] = parameters["truncation"];
      given["tokenize_kwargs"] = own;
    }
    const EncodeOptions options = encode_options_of_object(given, "tokenize_kwargs", model_.text());
    const auto encode = [&](size_t i) -> std::vector<Encoding> {
      std::vector<Encoding> encodings{tokenizer_.encode(texts[i], std::nullopt, options)};
      expect_positions(encodings[0], model_.text(), ", or have it cut: truncation true");
      return encodings;
    };
    std::vector<Json> results;
    for (const auto& rows : model_.text().rows(texts.size(), encode, {"last_hidden_state"}, TextModel::Unit::kToken,
                                               batch_size_of(parameters))) {
      const std::vector<float>& values = rows[0].outputs[0];
      const auto width = static_cast<ptrdiff_t>(values.size() / std::max<size_t>(1, rows[0].encoding.size()));
      Json tokens = Json::array();
      for (auto token = values.begin(); token != values.end(); token += width)
        tokens.push_back(std::vector<float>(token, token + width));
      results.push_back(Json::array({tokens}));
    }
    return results;
  }

  SentenceModel model_;
  Tokenizer tokenizer_;
};

}  // namespace

TaskParameters feature_extraction_parameters() {
  std::vector<std::string> poolings{"none", "auto"};
  for (const std::string& mode : pooling_mode_names()) poolings.push_back(mode);
  TaskParameters parameters{
      {"pooling", TaskParameter::Type::kText,
       "one vector a text; auto: as sentence-transformers' files in the directory say, else the mean", "none",
       poolings},
      {"truncation",
       TaskParameter::Type::kFlagOrWord,
       "cut texts that are longer than the model takes, which are refused without",
       "false",
       {"longest_first", "only_first", "only_second", "do_not_truncate"}},
      {"tokenize_kwargs", TaskParameter::Type::kJson,
       "options of the tokenizer: truncation, truncation_side, max_length, padding, add_special_tokens"},
      {"return_tensors", TaskParameter::Type::kFlagOrWord, "refused: results are lists of numbers", "", {"pt", "np"}},
  };
  for (TaskParameter& each : embedding_parameters()) parameters.push_back(std::move(each));
  return parameters;
}

std::unique_ptr<Pipeline> make_feature_extraction(const std::string& directory, const LoadOptions& options) {
  SentenceModel model = SentenceModel::load(directory, options, true);
  Tokenizer tokenizer =
      model.modules().do_lower_case ? Tokenizer::from_pretrained(model.folder(directory)) : model.text().tokenizer;
  return std::make_unique<FeatureExtraction>(std::move(model), std::move(tokenizer));
}

}  // namespace transom
