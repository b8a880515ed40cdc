// SPDX-License-Identifier: Apache-2.0
// Texts as weights of the vocabulary's tokens, from the scores of a masked-language head (Formal et al., "SPLADE",
// 2021), as sentence-transformers' SparseEncoder does.
#pragma once

#include <filesystem>
#include <vector>

#include "work/pipelines/text/text_model.h"

namespace transom {

struct SparsePooling {
  bool sum = false;        // over the tokens of a text; else their greatest
  bool log_twice = false;  // log(1 + log(1 + relu)), of OpenSearch's models

  // Whether modules.json of the directory says that its model gives such weights.
  static bool is_of(const std::filesystem::path& directory);
  // What modules.json says; without one the greatest of log(1 + relu).
  static SparsePooling read(const std::filesystem::path& directory);
};

// One weight a token of the vocabulary, most of them 0, for each text. `model` has the head.
std::vector<std::vector<float>> sparse_embeddings(const TextModel& model, const std::vector<Encoding>& encodings,
                                                  const SparsePooling& pooling);

}  // namespace transom
