// SPDX-License-Identifier: Apache-2.0
// Texts as weights of the vocabulary's tokens, from the scores of a masked-language head (Formal et al., "SPLADE",
// 2021), as the SpladePooling of sentence-transformers computes them.
#pragma once

#include <filesystem>
#include <string_view>

#include "transom/tensor.h"

namespace transom {

constexpr std::string_view kSpladePooling = "SpladePooling";

struct SparsePooling {
  bool sum = false;        // over the tokens of a text; else their greatest
  bool log_twice = false;  // log(1 + log(1 + relu)), of OpenSearch's models

  // Of the module's folder. Refuses keys that are not known.
  static SparsePooling read(const std::filesystem::path& folder);
};

// f32 [B, V], most of it 0: of the scores [B, T, V] of B texts. `counted` [B, T] is 1 for tokens and 0 for padding.
Tensor sparse_weights(const Tensor& scores, const Tensor& counted, const SparsePooling& pooling);

}  // namespace transom
