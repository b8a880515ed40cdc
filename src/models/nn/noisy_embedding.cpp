// SPDX-License-Identifier: Apache-2.0
#include "models/nn/noisy_embedding.h"

#include <cmath>

#include "transom/ops.h"

namespace transom {
namespace {

// Offsets that no dropout of the pass comes to.
constexpr double kFirstDraw = 1 << 19;

}  // namespace

Tensor NoisyEmbedding::with_noise(const std::shared_ptr<Parameter>& table, const Tensor& vectors) {
  if (!table_ || table_ != table || vectors.rank() != 3) return vectors;
  const double bound = alpha_ / std::sqrt(static_cast<double>(vectors.dim(1) * vectors.dim(2)));
  const Tensor key = key_ + iota({2}, 0) * (kFirstDraw + static_cast<double>(draws_++));
  return vectors + cast(random_uniform(key, vectors.shape()) * (2 * bound) - bound, vectors.dtype());
}

}  // namespace transom
