// SPDX-License-Identifier: Apache-2.0
// How well texts go with a query: by a cross-encoder (a classifier of pairs), or by the cosine of two vectors.
#pragma once

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "apps/serve/encoders/run_encoders.h"

namespace transom::serve {

// vLLM's activation (use_activation, softmax): false asks for the scores as the head gives them.
bool wants_raw_scores(RequestFields& fields);
// Of classifiers: all classes, their scores as they are or as the model's problem type has them.
Json class_parameters(bool raw);
bool can_score(const ModelFacts& model);
// What makes a score of the logit of a cross-encoder: what its checkpoint says, else the sigmoid; or one of them.
enum class PairActivation { kAsModel, kSigmoid, kNone };
// `then` gets one score a pair. Of a cross-encoder with one class that of its logit; with more classes the probability
// of the last one, or with kNone its logit. Of an embedding model its similarity. `fields` are where the texts of a
// pair stand, for errors. Texts may be empty.
struct PairFields {
  const char *first, *second;
};
void compute_scores(const std::shared_ptr<Call>& call, ServedModel& model,
                    const std::vector<std::pair<std::string, std::string>>& pairs, PairActivation activation,
                    const VectorSettings& settings, const PairFields& fields,
                    std::function<void(std::vector<double>)> then);
// source_sentence and sentences of Hugging Face's sentence similarity.
struct SimilarTexts {
  std::vector<std::pair<std::string, std::string>> pairs;
  PairFields fields{"inputs.source_sentence", "inputs.sentences"};
};
SimilarTexts read_similar_texts(RequestFields& inputs, int64_t most);

}  // namespace transom::serve
