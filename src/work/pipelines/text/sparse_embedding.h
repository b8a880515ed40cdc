// SPDX-License-Identifier: Apache-2.0
// Texts as weights of the vocabulary's tokens, as sentence-transformers' SparseEncoder does.
#pragma once

#include <filesystem>
#include <vector>

#include "models/sentences/sparse_pooling.h"
#include "work/pipelines/text/text_model.h"

namespace transom {

// What modules.json of the directory says; without one the greatest of log(1 + relu).
SparsePooling sparse_pooling_of(const std::filesystem::path& directory);

// One weight a token of the vocabulary, most of them 0, for each text. `model` has the head.
std::vector<std::vector<float>> sparse_embeddings(const TextModel& model, const std::vector<Encoding>& encodings,
                                                  const SparsePooling& pooling);
// Sets all but the `kept` largest weights to 0; of equal ones the first stay.
void keep_largest(std::vector<float>& weights, int64_t kept);

}  // namespace transom
