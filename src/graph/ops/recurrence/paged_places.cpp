// SPDX-License-Identifier: Apache-2.0
#include "graph/ops/recurrence/paged_places.h"

namespace transom {

void expect_places(const Inference& in, size_t first, int64_t tokens) {
  for (const size_t i : {first, first + 1})
    check(in, in.inputs[i] == Type{DType::kInt64, {tokens}}, "expected places of states of i64[{}], found {}", tokens,
          in.inputs[i]);
}

Tensor tokens_before(const Tensor& from, const Tensor& to) {
  const int64_t N = from.dim(0);
  const Shape pairs{N, N};
  const Tensor begins = broadcast_to(unsqueeze(from, 1), pairs), leaves = broadcast_to(unsqueeze(to, 0), pairs);
  const Tensor earlier = less(iota(pairs, 1), iota(pairs, 0));
  const Tensor there = greater_equal(begins, zeros(pairs, DType::kInt64));
  const Tensor follows = logical_and(logical_and(equal(begins, leaves), earlier), there);
  return reduce_max(select(follows, iota(pairs, 1), full(pairs, -1, DType::kInt64)), {1});
}

Tensor is_there(const Tensor& index) { return greater_equal(index, zeros(index.shape(), DType::kInt64)); }
Tensor at_least_zero(const Tensor& index) { return maximum(index, zeros(index.shape(), DType::kInt64)); }

Tensor rows_where(const Tensor& condition, const Tensor& x, const Tensor& y) {
  Shape shape(x.shape().size(), 1);
  shape[0] = condition.dim(0);
  return select(broadcast_to(reshape(condition, shape), x.shape()), x, y);
}
Tensor rows_where(const Tensor& condition, const Tensor& x) {
  return rows_where(condition, x, zeros(x.shape(), x.dtype()));
}

Tensor rows_at(const Tensor& x, const Tensor& index) {
  return rows_where(is_there(index), gather(x, at_least_zero(index), 0));
}

}  // namespace transom
