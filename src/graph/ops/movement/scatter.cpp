// SPDX-License-Identifier: Apache-2.0
// scatter: sets rows at places that are known only at run time, such as the new keys and values of a paged cache. A
// device that supports it writes the rows alone, in place where x is not needed afterwards.
#include "graph/ops/rules.h"

namespace transom {
namespace {

// For each row of x the last update that sets it, or -1: [n]
Tensor last_updates(const Tensor& indices, int64_t rows) {
  const Shape pairs = {rows, indices.size()};
  const Tensor sets = equal(iota(pairs, 0), broadcast_to(reshape(cast(indices, DType::kInt64), {1, -1}), pairs));
  return reduce_max(select(sets, iota(pairs, 1), full(pairs, -1, DType::kInt64)), {1});
}

const Operation kScatter = {
    .name = "scatter",
    .kind = OperationKind::kComposite,
    .documentation =
        "(x [n, ...], indices [k], updates [k, ...]): x with row indices[i] set to updates[i]. Of equal indices the "
        "last one counts; one outside of x sets nothing.",
    .in_place = 0,
    .category = Category::kMovement,
    .flops = no_flops,
    .error = kExactError,
    .infer = [](const Inference& in) -> std::vector<Type> {
      expect_inputs(in, 3);
      check(in, in.rank(0) >= 1, "expected x with rows, found {}", in.inputs[0]);
      check(in, in.rank(1) == 1 && (in.dtype(1) == DType::kInt64 || in.dtype(1) == DType::kInt32),
            "expected i32 or i64 indices of one axis, found {}", in.inputs[1]);
      expect_same_types(in, 0, 2);
      Shape expected = in.shape(0);
      expected[0] = in.shape(1)[0];
      check(in, in.shape(2) == expected, "expected updates of shape {}, found {}", expected, in.shape(2));
      return {in.inputs[0]};
    },
    .decompose = [](std::span<const Tensor> in, const Attributes&) -> std::vector<Tensor> {
      const Tensor &x = in[0], &updates = in[2];
      const int64_t rows = x.dim(0);
      if (rows == 0 || updates.dim(0) == 0) return {x};
      const Tensor last = last_updates(in[1], rows), none = zeros({rows}, DType::kInt64);
      Shape by_row(x.shape().size(), 1);
      by_row[0] = rows;
      const Tensor is_set = broadcast_to(reshape(greater_equal(last, none), by_row), x.shape());
      return {select(is_set, gather(updates, maximum(last, none), 0), x)};
    },
    .samples = []() -> std::vector<Sample> {
      std::vector<Sample> samples;
      for (const DType dtype : {DType::kFloat32, DType::kBFloat16, DType::kInt64}) {
        samples.push_back({{{dtype, {7, 5}}, {DType::kInt64, {3}}, {dtype, {3, 5}}}, {}, -2, 2, 7});
        samples.push_back({{{dtype, {4, 3, 2}}, {DType::kInt32, {9}}, {dtype, {9, 3, 2}}}, {}, -2, 2, 6});
        samples.push_back({{{dtype, {9}}, {DType::kInt64, {0}}, {dtype, {0}}}, {}, -2, 2, 9});
      }
      return samples;
    }};

}  // namespace

const RegisterOperations kRegisteredScatter{&kScatter};

Tensor scatter(const Tensor& x, const Tensor& indices, const Tensor& updates) {
  return make_tensor(kScatter, {x, indices, updates});
}

}  // namespace transom
