// SPDX-License-Identifier: Apache-2.0
// NEFTune (Jain et al., 2023): noise on the embeddings of tokens while a model is fine-tuned.
#pragma once

#include <memory>
#include <utility>

#include "transom/model.h"

namespace transom {

// As Computing::noise of one pass it gives lookups in `table` noise: uniform in +-alpha / sqrt(T D) for vectors
// [B, T, D]. `key` is an input of the graph, as of dropout. An empty table: none.
class NoisyEmbedding {
 public:
  NoisyEmbedding(std::shared_ptr<Parameter> table, double alpha, Tensor key)
      : table_(std::move(table)), alpha_(alpha), key_(std::move(key)) {}

  // The vectors, with noise where the table is this one.
  Tensor with_noise(const std::shared_ptr<Parameter>& table, const Tensor& vectors);

 private:
  std::shared_ptr<Parameter> table_;
  double alpha_;
  Tensor key_;
  int64_t draws_ = 0;
};

}  // namespace transom
