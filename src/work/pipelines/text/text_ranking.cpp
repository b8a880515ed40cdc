// SPDX-License-Identifier: Apache-2.0
// Which documents answer a query best, by a cross-encoder, or by a language model that answers yes or no: as
// sentence-transformers' CrossEncoder.rank().
#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/json/json.h"
#include "files/hub/resolve.h"
#include "models/next_token.h"
#include "work/pipelines/classification.h"
#include "work/pipelines/text/pair_activation.h"
#include "work/pipelines/text/pair_ranking.h"
#include "work/pipelines/text/text_model.h"
#include "work/pipelines/text/writing_ranker.h"

namespace transom {
namespace {

std::string score_function(const std::string& activation, const TaskOptions& options) {
  if (!activation.empty() && activation != "Identity" && activation != "Sigmoid")
    fail(ErrorKind::kUnsupported, "the checkpoint asks for the activation {}; Identity and Sigmoid are supported",
         quoted(activation));
  return text_option(options, "function_to_apply", activation == "Identity" ? "none" : "sigmoid");
}

// By falling score, as many as are wanted.
std::vector<SentenceMatch> ranked(const std::vector<double>& scores, const TaskOptions& options) {
  std::vector<SentenceMatch> matches;
  for (const size_t place : falling_order(scores)) matches.push_back({static_cast<int64_t>(place), scores[place]});
  if (!matches.empty()) matches.resize(classes_wanted(options, matches.size(), std::nullopt));
  return matches;
}

// max_length of the options, which may shorten what the model takes.
std::optional<int64_t> longest_pair(const TaskOptions& options, const std::optional<int64_t>& of_model) {
  if (!is_given(options, "max_length")) return of_model;
  const int64_t asked = int_option(options, "max_length", 0);
  if (asked < 1) fail(ErrorKind::kUsage, "max_length: expected a number of tokens above 0, found {}", asked);
  return std::min(asked, of_model.value_or(asked));
}

const SentencesInput& query_of(const TaskInput& input) {
  const auto* given = std::get_if<SentencesInput>(&input);
  if (!given) fail("expected a query with documents, found {}", name_of(input));
  return *given;
}

TaskParameters ranking_parameters(bool of_writer) {
  TaskParameters parameters{
      {"top_k", TaskParameter::Type::kInteger, "only so many documents, the best ones (default: all)"},
      {"return_documents", TaskParameter::Type::kFlag, "return the text of each document", "false"},
      {"function_to_apply",
       TaskParameter::Type::kText,
       "what turns the logit into the score (default: as the checkpoint says, else sigmoid)",
       "",
       {"sigmoid", "none"}},
      {"max_length", TaskParameter::Type::kInteger,
       "tokens of a query and a document together; the document is cut (default: what the model takes)"},
  };
  if (of_writer)
    parameters.push_back({"prompt", TaskParameter::Type::kText,
                          "what a language model is told to judge by (default: as the checkpoint says)"});
  return parameters;
}

TaskParameters text_ranking_parameters() { return ranking_parameters(true); }

class TextRanking : public PairRanking {
 public:
  TextRanking(TextModel model, std::string activation) : model_(std::move(model)), activation_(std::move(activation)) {
    if (const size_t classes = model_.model->labels().size(); classes != 1)
      fail("text-ranking: expected a model with one label, whose logit is the score of two texts; found {} labels",
           classes);
  }
  Model* model() const override { return model_.model.get(); }
  TaskParameters parameters() const override { return ranking_parameters(false); }
  std::optional<int64_t> max_length() const override { return model_.max_length(); }
  int64_t tokens_of_pair(const std::string& query, const std::string& document) const override {
    return static_cast<int64_t>(model_.tokenizer.encode(query, document).size());
  }

  // By falling score. The pairs of all queries are one list for batches.
  std::vector<TaskResult> run(const std::vector<TaskInput>& inputs, const TaskOptions& options) const override {
    const std::string function = score_function(activation_, options);
    const EncodeOptions encoding{.truncation = Truncation::kLongestFirst,
                                 .max_length = longest_pair(options, max_length())};
    std::vector<const SentencesInput*> given;
    for (const TaskInput& input : inputs) given.push_back(&query_of(input));
    const auto encode = [&](size_t i) {
      std::vector<Encoding> pairs;
      for (const std::string& document : given[i]->sentences)
        pairs.push_back(model_.tokenizer.encode(given[i]->source_sentence, document, encoding));
      return pairs;
    };
    std::vector<TaskResult> results;
    for (const auto& rows :
         model_.rows(inputs.size(), encode, {"logits"}, TextModel::Unit::kText, batch_size_of(options)))
      results.emplace_back(ranking(rows, function, options));
    return results;
  }

 private:
  static std::vector<SentenceMatch> ranking(const std::vector<TextModel::Row>& rows, const std::string& function,
                                            const TaskOptions& options) {
    std::vector<double> scores;
    for (const TextModel::Row& row : rows) scores.push_back(scores_of(row.outputs[0], function)[0]);
    return ranked(scores, options);
  }

  TextModel model_;
  std::string activation_;
};

// A language model whose answer is read from the logits behind the pair.
class WritingRanking : public PairRanking {
 public:
  WritingRanking(WritingRanker ranker, std::string activation)
      : ranker_(std::move(ranker)), activation_(std::move(activation)) {}
  Model* model() const override { return ranker_.text().model.get(); }
  TaskParameters parameters() const override { return ranking_parameters(true); }
  std::optional<int64_t> max_length() const override { return ranker_.max_length(); }
  int64_t tokens_of_pair(const std::string& query, const std::string& document) const override {
    return ranker_.tokens_of_pair(query, document);
  }

  std::vector<TaskResult> run(const std::vector<TaskInput>& inputs, const TaskOptions& options) const override {
    const std::string function = score_function(activation_, options);
    WritingRanker::Asked asked{.batch_size = batch_size_of(options), .max_length = longest_pair(options, max_length())};
    if (is_given(options, "prompt")) asked.prompt = text_option(options, "prompt", "");
    std::vector<TaskResult> results;
    for (const TaskInput& input : inputs) {
      const SentencesInput& given = query_of(input);
      std::vector<double> scores = ranker_.scores(given.source_sentence, given.sentences, asked);
      if (function == "sigmoid")
        for (double& score : scores) score = 1 / (1 + std::exp(-score));
      results.emplace_back(ranked(scores, options));
    }
    return results;
  }

 private:
  WritingRanker ranker_;
  std::string activation_;
};

std::unique_ptr<Pipeline> load_text_ranking(const std::string& directory, const LoadOptions& options,
                                            const std::string& /*task*/) {
  const std::string activation = pair_activation_of(directory_of_model(directory));
  if (predicts_next_token(read_json(directory_of_model(directory) / "config.json")))
    return std::make_unique<WritingRanking>(WritingRanker(directory, options), activation);
  return std::make_unique<TextRanking>(TextModel::load(directory, options), activation);
}

constexpr TaskRecord kTextRanking{.name = "text-ranking",
                                  .example = "--query \"Who wrote it?\" \"Ada did.\" \"It rains.\"",
                                  .input = InputKind::kSentences,
                                  .one_name = "query",
                                  .others_name = "documents",
                                  .result = ResultKind::kMatches,
                                  .parameters = text_ranking_parameters,
                                  .load = load_text_ranking,
                                  .head = "text-classification"};
const RegisterTask kRegisterTextRanking(kTextRanking);

}  // namespace
}  // namespace transom
