// SPDX-License-Identifier: Apache-2.0
#include "work/train/tasks/sentences/losses/similarities.h"

#include "models/sentences/sentence_head.h"
#include "transom/ops.h"

namespace transom {
namespace {

// Its gradient is 0, not infinite, where x is 0.
Tensor safe_sqrt(const Tensor& x) { return sqrt(maximum(x, constant(1e-30))); }

Tensor products(const Tensor& a, const Tensor& b) { return matmul(a, transpose(b, 0, 1), kAsGiven); }

}  // namespace

Tensor closeness(const Tensor& a, const Tensor& b, Closeness how) {
  return how == Closeness::kCosine ? products(at_length_one(a), at_length_one(b)) : products(a, b);
}

Tensor closeness_of_rows(const Tensor& a, const Tensor& b, Closeness how) {
  return how == Closeness::kCosine ? reduce_sum(at_length_one(a) * at_length_one(b), {-1}) : reduce_sum(a * b, {-1});
}

Tensor angle_closeness_of_rows(const Tensor& a, const Tensor& b) {
  const auto even = [](const Tensor& x) { return x.dim(1) % 2 == 0 ? x : pad(x, {0, 0}, {0, 1}); };
  const Tensor x = at_length_one(even(a)), y = at_length_one(even(b));
  const int64_t width = x.dim(1), half = width / 2;
  const Tensor cosines = reduce_sum(x * y, {1});
  const Tensor sines = reduce_sum(
      slice(x, 1, half, width) * slice(y, 1, 0, half) - slice(x, 1, 0, half) * slice(y, 1, half, width), {1});
  return abs(cosines + sines);
}

Tensor distance_of_rows(const Tensor& a, const Tensor& b, Distance how, double epsilon) {
  if (how == Distance::kCosine) return 1 - closeness_of_rows(a, b, Closeness::kCosine);
  const Tensor difference = epsilon > 0 ? a - b + epsilon : a - b;
  return how == Distance::kManhattan ? reduce_sum(abs(difference), {-1})
                                     : safe_sqrt(reduce_sum(difference * difference, {-1}));
}

Tensor distances(const Tensor& x, Distance how) {
  if (how == Distance::kCosine) return 1 - closeness(x, x, Closeness::kCosine);
  const int64_t rows = x.dim(0);
  const Tensor squares = reduce_sum(x * x, {1});
  const Tensor others =
      (unsqueeze(squares, 0) - products(x, x) * 2.0 + unsqueeze(squares, 1)) * (1 - diagonal(rows, rows));
  const Tensor apart = cast(greater(others, zeros(others.shape())), DType::kFloat32);
  return safe_sqrt(others * apart) * apart;
}

Tensor log_sum_exp(const Tensor& x) {
  const Tensor most = reduce_max(x, {-1}, true).detach();
  return log(reduce_sum(exp(x - most), {-1})) + squeeze(most, -1);
}

Tensor diagonal(int64_t rows, int64_t columns, int64_t offset) {
  const Tensor row = iota({rows, columns}, 0) + full({rows, columns}, static_cast<double>(offset), DType::kInt64);
  return cast(equal(iota({rows, columns}, 1), row), DType::kFloat32);
}

}  // namespace transom
