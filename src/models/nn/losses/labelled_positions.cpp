// SPDX-License-Identifier: Apache-2.0
#include "models/nn/losses/labelled_positions.h"

#include "base/error.h"

namespace transom {
namespace {

constexpr double kUnlabelled = -100, kNoClass = -1;

}  // namespace

LabelledRows labelled_rows(const Tensor& hidden, const Tensor& labels, int64_t most) {
  if (hidden.rank() != 3 || labels.rank() != 2 || hidden.dim(0) != labels.dim(0) || hidden.dim(1) != labels.dim(1))
    fail("labels of {} do not fit hidden states of {}: expected one label for each position", to_string(labels.shape()),
         to_string(hidden.shape()));
  const int64_t batch = labels.dim(0), length = labels.dim(1);
  if (most <= 0 || most >= length) return {hidden, labels};
  const Tensor all = cast(labels, DType::kInt64);
  const auto every = [&](const Shape& shape, double value) { return full(shape, value, DType::kInt64); };
  const Tensor labelled = not_equal(all, every(all.shape(), kUnlabelled));
  // The earlier a labelled position, the larger its key: the places of the largest keys are in order.
  const Tensor keys = select(labelled, static_cast<double>(length) - iota(all.shape(), 1), every(all.shape(), 0));
  const auto [found, places] = top_k(keys, most);
  const Shape few{batch, most};
  const Tensor rows = reshape(cast(places, DType::kInt64) + iota(few, 0) * static_cast<double>(length), {batch * most});
  const Tensor count = reduce_sum(cast(labelled, DType::kInt64), {1}, true);
  const Tensor too_many = broadcast_to(greater(count, every({batch, 1}, static_cast<double>(most))), few);
  const Tensor chosen = reshape(gather(reshape(all, {batch * length}), rows, 0), few);
  const Tensor known = select(greater(found, every(few, 0)), chosen, every(few, kUnlabelled));
  return {reshape(gather(reshape(hidden, {batch * length, hidden.dim(2)}), rows, 0), {batch, most, hidden.dim(2)}),
          select(too_many, every(few, kNoClass), known)};
}

}  // namespace transom
