// SPDX-License-Identifier: Apache-2.0
// How close sentences are to a source sentence: by the similarity that the model's sentence-transformers files name,
// else the cosine of the angle between their vectors, as in the sentence-similarity task of Hugging Face's inference
// endpoints.
#include "base/error.h"
#include "base/json/json.h"
#include "pipelines/classification.h"
#include "pipelines/pipeline.h"
#include "pipelines/text/sentence_model.h"

namespace transom {
namespace {

class SentenceSimilarity : public Pipeline {
 public:
  explicit SentenceSimilarity(SentenceModel model) : model_(std::move(model)) {}
  TaskParameters parameters() const override { return sentence_similarity_parameters(); }
  Model* model() const override { return model_.text().model.get(); }

  // {"source_sentence": "...", "sentences": ["...", ...]} -> one score a sentence, in their order; with top_k the
  // closest ones, as sentence-transformers' semantic_search() gives them: [{"corpus_id", "score"}].
  Json run(const Json& input, const Json& parameters) const override {
    if (!input.is_object() || !input.contains("sentences") || !input["sentences"].is_array())
      fail("expected an object with \"source_sentence\" and the list \"sentences\"; found {}",
           quoted(dump_json(input)));
    std::vector<std::string> texts{text_input(input, "source_sentence")};
    for (const Json& sentence : input["sentences"]) {
      if (!sentence.is_string()) fail("sentences: expected texts, found {}", quoted(dump_json(sentence)));
      texts.push_back(sentence.get<std::string>());
    }
    const std::string pooling = string_parameter(parameters, "pooling", "auto");
    const auto vectors = model_.embed(texts, embedding_options(parameters, pooling, model_));
    const Similarity similarity = pooling == "auto" ? model_.modules().similarity : Similarity::kCosine;
    std::vector<double> scores;
    for (size_t i = 1; i < vectors.size(); ++i) scores.push_back(similarity_of(similarity, vectors[0], vectors[i]));
    if (parameters.value("top_k", Json()).is_null()) return scores;
    const size_t count = classes_wanted(parameters, scores.size(), std::nullopt);
    const std::vector<size_t> order = falling_order(scores);
    Json closest = Json::array();
    for (size_t i = 0; i < count; ++i) closest.push_back({{"corpus_id", order[i]}, {"score", scores[order[i]]}});
    return closest;
  }

 private:
  SentenceModel model_;
};

}  // namespace

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

std::unique_ptr<Pipeline> make_sentence_similarity(const std::string& directory, const LoadOptions& options) {
  return std::make_unique<SentenceSimilarity>(SentenceModel::load(directory, options));
}

}  // namespace transom
