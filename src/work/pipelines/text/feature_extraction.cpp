// SPDX-License-Identifier: Apache-2.0
// Hidden states as features: of every token, or pooled into one vector a text.
#include <algorithm>

#include "base/error.h"
#include "base/json/json.h"
#include "work/pipelines/pipeline.h"
#include "work/pipelines/text/sentence_model.h"

namespace transom {
namespace {

class FeatureExtraction : public Pipeline {
 public:
  // `tokenizer` is that of the model alone, for the states of its tokens.
  FeatureExtraction(SentenceModel model, Tokenizer tokenizer)
      : model_(std::move(model)), tokenizer_(std::move(tokenizer)) {}
  Model* model() const override { return model_.text().model.get(); }

  // [1, T, D] of the tokens of a text; pooled, [D].
  std::vector<TaskResult> run(const std::vector<TaskInput>& inputs, const TaskOptions& options) const override {
    const bool sparse = model_.modules().sparse.has_value();
    const std::string pooling = text_option(options, "pooling", sparse ? "auto" : "none");
    if (sparse && pooling == "none")
      fail(ErrorKind::kUsage, "pooling: expected auto, since this model gives weights of tokens, found none");
    std::vector<std::string> texts;
    for (const TaskInput& input : inputs) texts.push_back(text_input(input).text);
    expect_used(options, pooling);
    if (pooling == "none") return token_features(texts, options);
    std::vector<TaskResult> results;
    for (std::vector<float>& vector : model_.embed(texts, embedding_options(options, pooling, model_)))
      results.emplace_back(FeatureArray{{static_cast<int64_t>(vector.size())}, std::move(vector)});
    return results;
  }

 private:
  // What is of vectors of tokens, or of texts, alone.
  static void expect_used(const TaskOptions& options, const std::string& pooling) {
    refuse_without_effect(options, {"return_tensors"}, "here: results are lists of numbers");
    if (pooling == "none")
      refuse_without_effect(options, names_of(embedding_parameters()), "without pooling; add pooling auto");
    else
      refuse_without_effect(options, {"truncation", "tokenize_kwargs"},
                            "with pooling: texts are cut at max_seq_length, as sentence-transformers does");
  }

  std::vector<TaskResult> token_features(const std::vector<std::string>& texts, const TaskOptions& options) const {
    Json own = json_option(options, "tokenize_kwargs");
    if (options.contains("truncation") && (own.is_null() || own.is_object())) {
      if (own.contains("truncation")) fail(ErrorKind::kUsage, "truncation: is in tokenize_kwargs too");
      own["truncation"] = json_option(options, "truncation");
    }
    const EncodeOptions encoding = encode_options_of_object(own, "tokenize_kwargs", model_.text());
    const auto encode = [&](size_t i) -> std::vector<Encoding> {
      std::vector<Encoding> encodings{tokenizer_.encode(texts[i], std::nullopt, encoding)};
      expect_positions(encodings[0], model_.text(), ", or have it cut: truncation true");
      return encodings;
    };
    std::vector<TaskResult> results;
    for (auto& rows : model_.text().rows(texts.size(), encode, {"last_hidden_state"}, TextModel::Unit::kToken,
                                         batch_size_of(options))) {
      std::vector<float>& values = rows[0].outputs[0];
      const auto tokens = static_cast<int64_t>(rows[0].encoding.size());
      const int64_t width = static_cast<int64_t>(values.size()) / std::max<int64_t>(1, tokens);
      results.emplace_back(FeatureArray{{1, tokens, width}, std::move(values)});
    }
    return results;
  }

  SentenceModel model_;
  Tokenizer tokenizer_;
};

TaskParameters feature_extraction_parameters() {
  std::vector<std::string> poolings{"none", "auto"};
  for (const std::string& mode : pooling_mode_names()) poolings.push_back(mode);
  TaskParameters parameters{
      {"pooling", TaskParameter::Type::kText,
       "one vector a text; auto: as sentence-transformers' files in the directory say, else the mean (default of "
       "SPLADE: auto)",
       "none", poolings},
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

std::unique_ptr<Pipeline> load_feature_extraction(const std::string& directory, const LoadOptions& options,
                                                  const std::string& /*task*/) {
  SentenceModel model = SentenceModel::load(directory, options, true);
  Tokenizer tokenizer =
      model.modules().do_lower_case ? Tokenizer::from_pretrained(model.folder(directory)) : model.text().tokenizer;
  return std::make_unique<FeatureExtraction>(std::move(model), std::move(tokenizer));
}

constexpr TaskRecord kFeatureExtraction{.name = "feature-extraction",
                                        .example = "--pooling auto --file sentences.txt --json",
                                        .result = ResultKind::kVectors,
                                        .parameters = feature_extraction_parameters,
                                        .load = load_feature_extraction};
const RegisterTask kRegisterFeatureExtraction(kFeatureExtraction);

}  // namespace
}  // namespace transom
