// SPDX-License-Identifier: Apache-2.0
// NEFTune (Jain et al., 2023): noise on the embeddings of tokens while a model is fine-tuned.
#pragma once

#include <memory>

#include "transom/model.h"

namespace transom {

// While it lives, this thread's lookups in `table` get noise: uniform in +-alpha / sqrt(T D) for vectors [B, T, D].
// `key` is an input of the graph, as of dropout. An empty table: none.
class NoisyEmbedding {
 public:
  NoisyEmbedding(std::shared_ptr<Parameter> table, double alpha, Tensor key);
  ~NoisyEmbedding();
  NoisyEmbedding(const NoisyEmbedding&) = delete;
  NoisyEmbedding& operator=(const NoisyEmbedding&) = delete;

 private:
  friend Tensor with_noise(const std::shared_ptr<Parameter>& table, const Tensor& vectors);
  std::shared_ptr<Parameter> table_;
  double alpha_;
  Tensor key_;
  int64_t draws_ = 0;
  NoisyEmbedding* before_;
};

// The vectors, with noise where the table is a noisy one.
Tensor with_noise(const std::shared_ptr<Parameter>& table, const Tensor& vectors);

}  // namespace transom
