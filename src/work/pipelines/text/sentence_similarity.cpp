// SPDX-License-Identifier: Apache-2.0
// How close sentences are to a source sentence: by the similarity that the model's sentence-transformers files name,
// else the cosine of the angle between their vectors, as in the sentence-similarity task of Hugging Face's inference
// endpoints.
#include "base/error.h"
#include "work/pipelines/classification.h"
#include "work/pipelines/pipeline.h"
#include "work/pipelines/text/sentence_model.h"

namespace transom {
namespace {

class SentenceSimilarity : public Pipeline {
 public:
  explicit SentenceSimilarity(SentenceModel model) : model_(std::move(model)) {}
  Model* model() const override { return model_.text().model.get(); }

  // One score a sentence, in their order; with top_k the closest ones, as sentence-transformers' semantic_search()
  // gives them.
  std::vector<TaskResult> run(const std::vector<TaskInput>& inputs, const TaskOptions& options) const override {
    std::vector<TaskResult> results;
    for (const TaskInput& input : inputs) {
      const SentencesInput* given = std::get_if<SentencesInput>(&input);
      if (!given) fail("expected a source sentence and sentences, found {}", name_of(input));
      results.push_back(closeness(*given, options));
    }
    return results;
  }

 private:
  TaskResult closeness(const SentencesInput& input, const TaskOptions& options) const {
    std::vector<std::string> texts{input.source_sentence};
    texts.insert(texts.end(), input.sentences.begin(), input.sentences.end());
    const std::string pooling = text_option(options, "pooling", "auto");
    const auto vectors = model_.embed(texts, embedding_options(options, pooling, model_));
    const Similarity similarity = pooling == "auto" ? model_.modules().similarity : Similarity::kCosine;
    std::vector<double> scores;
    for (size_t i = 1; i < vectors.size(); ++i) scores.push_back(similarity_of(similarity, vectors[0], vectors[i]));
    if (!is_given(options, "top_k")) return scores;
    const size_t count = classes_wanted(options, scores.size(), std::nullopt);
    const std::vector<size_t> order = falling_order(scores);
    std::vector<SentenceMatch> closest;
    for (size_t i = 0; i < count; ++i) closest.push_back({static_cast<int64_t>(order[i]), scores[order[i]]});
    return closest;
  }

  SentenceModel model_;
};

TaskParameters sentence_similarity_parameters() {
  std::vector<std::string> poolings{"auto"};
  for (const std::string& mode : pooling_mode_names()) poolings.push_back(mode);
  TaskParameters parameters{
      {"pooling", TaskParameter::Type::kText,
       "how the vectors of tokens become one; auto: as sentence-transformers' files in the directory say, else the "
       "mean",
       "auto", poolings},
      {"top_k", TaskParameter::Type::kInteger, "only so many sentences, the closest ones (default: all)"},
  };
  for (TaskParameter& each : embedding_parameters()) parameters.push_back(std::move(each));
  return parameters;
}

std::unique_ptr<Pipeline> load_sentence_similarity(const std::string& directory, const LoadOptions& options,
                                                   const std::string& /*task*/) {
  return std::make_unique<SentenceSimilarity>(SentenceModel::load(directory, options));
}

constexpr TaskRecord kSentenceSimilarity{.name = "sentence-similarity",
                                         .example = "--source_sentence \"A cat sat.\" \"A dog lay.\" \"Rain.\"",
                                         .input = InputKind::kSentences,
                                         .result = ResultKind::kSimilarities,
                                         .parameters = sentence_similarity_parameters,
                                         .load = load_sentence_similarity,
                                         .head = "feature-extraction"};
const RegisterTask kRegisterSentenceSimilarity(kSentenceSimilarity);

}  // namespace
}  // namespace transom
