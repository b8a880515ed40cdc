// SPDX-License-Identifier: Apache-2.0
#include "nn/noisy_embedding.h"

#include <cmath>
#include <utility>

#include "ops/computing.h"
#include "transom/ops.h"

namespace transom {
namespace {

// Offsets that no dropout of the pass comes to.
constexpr double kFirstDraw = 1 << 19;

}  // namespace

NoisyEmbedding::NoisyEmbedding(std::shared_ptr<Parameter> table, double alpha, Tensor key)
    : table_(std::move(table)), alpha_(alpha), key_(std::move(key)), before_(set_computing(&Computing::noise, this)) {}
NoisyEmbedding::~NoisyEmbedding() { set_computing(&Computing::noise, before_); }

Tensor with_noise(const std::shared_ptr<Parameter>& table, const Tensor& vectors) {
  NoisyEmbedding* noisy = computing().noise;
  if (!noisy || !noisy->table_ || noisy->table_ != table || vectors.rank() != 3) return vectors;
  const double bound = noisy->alpha_ / std::sqrt(static_cast<double>(vectors.dim(1) * vectors.dim(2)));
  const Tensor key = noisy->key_ + iota({2}, 0) * (kFirstDraw + static_cast<double>(noisy->draws_++));
  return vectors + cast(random_uniform(key, vectors.shape()) * (2 * bound) - bound, vectors.dtype());
}

}  // namespace transom
