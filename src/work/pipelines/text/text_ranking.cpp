// SPDX-License-Identifier: Apache-2.0
// Which documents answer a query best, by a cross-encoder: as sentence-transformers' CrossEncoder.rank().
#include <cmath>

#include "base/error.h"
#include "files/hub/resolve.h"
#include "work/pipelines/classification.h"
#include "work/pipelines/text/pair_activation.h"
#include "work/pipelines/text/text_model.h"

namespace transom {
namespace {

class TextRanking : public Pipeline {
 public:
  TextRanking(TextModel model, std::string activation) : model_(std::move(model)), activation_(std::move(activation)) {
    if (const size_t classes = model_.model->labels().size(); classes != 1)
      fail("text-ranking: expected a model with one label, whose logit is the score of two texts; found {} labels",
           classes);
  }
  Model* model() const override { return model_.model.get(); }

  // By falling score. The pairs of all queries are one list for batches.
  std::vector<TaskResult> run(const std::vector<TaskInput>& inputs, const TaskOptions& options) const override {
    const std::string function = function_of(options);
    const EncodeOptions encoding{.truncation = Truncation::kLongestFirst, .max_length = model_.max_length()};
    std::vector<const SentencesInput*> given;
    for (const TaskInput& input : inputs) {
      given.push_back(std::get_if<SentencesInput>(&input));
      if (!given.back()) fail("expected a query with documents, found {}", name_of(input));
    }
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
  std::string function_of(const TaskOptions& options) const {
    if (!activation_.empty() && activation_ != "Identity" && activation_ != "Sigmoid")
      fail(ErrorKind::kUnsupported, "the checkpoint asks for the activation {}; Identity and Sigmoid are supported",
           quoted(activation_));
    return text_option(options, "function_to_apply", activation_ == "Identity" ? "none" : "sigmoid");
  }

  static std::vector<SentenceMatch> ranking(const std::vector<TextModel::Row>& rows, const std::string& function,
                                            const TaskOptions& options) {
    std::vector<double> scores;
    for (const TextModel::Row& row : rows) scores.push_back(scores_of(row.outputs[0], function)[0]);
    std::vector<SentenceMatch> matches;
    for (const size_t place : falling_order(scores)) matches.push_back({static_cast<int64_t>(place), scores[place]});
    if (!matches.empty()) matches.resize(classes_wanted(options, matches.size(), std::nullopt));
    return matches;
  }

  TextModel model_;
  std::string activation_;
};

TaskParameters text_ranking_parameters() {
  return {
      {"top_k", TaskParameter::Type::kInteger, "only so many documents, the best ones (default: all)"},
      {"return_documents", TaskParameter::Type::kFlag, "return the text of each document", "false"},
      {"function_to_apply",
       TaskParameter::Type::kText,
       "what turns the logit into the score (default: as the checkpoint says, else sigmoid)",
       "",
       {"sigmoid", "none"}},
  };
}

std::unique_ptr<Pipeline> load_text_ranking(const std::string& directory, const LoadOptions& options,
                                            const std::string& /*task*/) {
  return std::make_unique<TextRanking>(TextModel::load(directory, options),
                                       pair_activation_of(directory_of_model(directory)));
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
