// SPDX-License-Identifier: Apache-2.0
// How close sentences are to a source sentence: the cosine of the angle between their vectors, as in the
// sentence-similarity task of Hugging Face's inference endpoints.
#include <cmath>

#include "base/error.h"
#include "base/json/json.h"
#include "pipelines/pipeline.h"
#include "pipelines/text/sentence_embedding.h"

namespace transom {
namespace {

double cosine(const std::vector<float>& a, const std::vector<float>& b) {
  double dot = 0, aa = 0, bb = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    dot += static_cast<double>(a[i]) * b[i];
    aa += static_cast<double>(a[i]) * a[i];
    bb += static_cast<double>(b[i]) * b[i];
  }
  return dot / std::max(std::sqrt(aa * bb), 1e-12);
}

class SentenceSimilarity : public Pipeline {
 public:
  SentenceSimilarity(TextModel model, const std::string& directory) : model_(std::move(model)), directory_(directory) {}
  TaskParameters parameters() const override { return sentence_similarity_parameters(); }
  Model* model() const override { return model_.model.get(); }

  // {"source_sentence": "...", "sentences": ["...", ...]} -> one score a sentence, in their order.
  Json run(const Json& input, const Json& parameters) const override {
    if (!input.is_object() || !input.contains("sentences") || !input["sentences"].is_array())
      fail("expected an object with \"source_sentence\" and the list \"sentences\"; found {}",
           quoted(dump_json(input)));
    std::vector<std::string> texts{text_input(input, "source_sentence")};
    for (const Json& sentence : input["sentences"]) {
      if (!sentence.is_string()) fail("sentences: expected texts, found {}", quoted(dump_json(sentence)));
      texts.push_back(sentence.get<std::string>());
    }
    const std::string name = string_parameter(parameters, "pooling", "auto");
    if (name == "none") fail("pooling: sentence-similarity needs auto, mean or cls");
    const auto vectors = embed(model_, texts, Pooling::parse(name, directory_));
    Json scores = Json::array();
    for (size_t i = 1; i < vectors.size(); ++i) scores.push_back(cosine(vectors[0], vectors[i]));
    return scores;
  }

 private:
  TextModel model_;
  std::filesystem::path directory_;
};

}  // namespace

TaskParameters sentence_similarity_parameters() {
  return {
      {"pooling",
       TaskParameter::Type::kText,
       "how the vectors of tokens become one; auto: as modules.json says, else the mean",
       "auto",
       {"auto", "mean", "cls"}},
  };
}

std::unique_ptr<Pipeline> make_sentence_similarity(TextModel model, const std::string& directory) {
  return std::make_unique<SentenceSimilarity>(std::move(model), directory);
}

}  // namespace transom
