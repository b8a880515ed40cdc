// SPDX-License-Identifier: Apache-2.0
// Grouped products: each row meets the weight of its group alone. A device that supports them sorts the rows; elsewhere
// every row meets every weight, and what does not count is dropped.
#include "graph/ops/products/grouped_linear.h"

#include "graph/ops/records.h"
#include "graph/ops/rules.h"

namespace transom {
namespace {

using Tensors = std::vector<Tensor>;

// x [N, ...] and groups [N, k].
void expect_rows(const Inference& in, size_t x, size_t groups) {
  check(in, in.dtype(groups) == DType::kInt64 && in.rank(groups) == 2, "expected groups i64 [N, k], found {}",
        in.inputs[groups]);
  Shape rows(in.shape(x).begin(), in.shape(x).end() - (in.rank(x) > 0 ? 1 : 0));
  Shape expected = in.shape(groups);
  if (in.rank(x) == 2) expected.pop_back();
  check(in, (in.rank(x) == 2 || in.rank(x) == 3) && rows == expected, "expected rows for groups {}, found {}",
        in.inputs[groups], in.inputs[x]);
}

// Where the group is this one, over rows [N, k, width].
Tensor rows_of_group(const Tensor& groups, int64_t group, int64_t width) {
  const Tensor is = equal(groups, full(groups.shape(), static_cast<double>(group), DType::kInt64));
  return broadcast_to(unsqueeze(is, -1), {groups.dim(0), groups.dim(1), width});
}

// [N, width] for each of k groups of a row.
Tensor for_each_group(const Tensor& x, const Tensor& groups) {
  if (x.rank() == 3) return x;
  return broadcast_to(unsqueeze(x, 1), {groups.dim(0), groups.dim(1), x.dim(1)});
}

Tensor product_of_rows(const Tensor& x, const Tensor& y, int64_t x_axis, int64_t y_axis) {
  return make_tensor(op::dot_general, {x, y},
                     {{"x_batch", Axes{}},
                      {"y_batch", Axes{}},
                      {"x_contract", Axes{x_axis}},
                      {"y_contract", Axes{y_axis}},
                      {"dtype", static_cast<int64_t>(x.dtype())}});
}

double rows_in(const Type& groups) { return static_cast<double>(elements(groups.shape)); }

const Operation kGroupedLinear = {
    .name = "grouped_linear",
    .kind = OperationKind::kComposite,
    .documentation =
        "x [N, K] or [N, k, K], groups i64 [N, k], weights [O, K] (`transposed`: [K, O]): [N, k, O], each row times "
        "the "
        "weight of its group. The first weight is that of group `first`; rows of groups without one become zero.",
    .category = Category::kProducts,
    .autocast = AutocastClass::kLow,
    .flops =
        [](const CostRequest& cost) {
          return 2 * rows_in(cost.inputs[1]) * static_cast<double>(elements(cost.inputs[2].shape));
        },
    .error = ErrorBounds{{ErrorScale::kTerms, 0.5}, {ErrorScale::kTensor, 3}},
    .infer = [](const Inference& in) -> std::vector<Type> {
      check(in, in.inputs.size() >= 3, "expected x, groups and at least one weight, found {} inputs", in.inputs.size());
      expect_floating(in, 0);
      expect_rows(in, 0, 1);
      const bool transposed = in.attributes.get_int("transposed") != 0;
      for (size_t i = 2; i < in.inputs.size(); ++i) {
        check(in, in.rank(i) == 2 && in.inputs[i] == in.inputs[2] && in.dtype(i) == in.dtype(0),
              "expected weights of one type, as x has it, found {} beside {}", in.inputs[i], in.inputs[2]);
        check(in, in.shape(i)[transposed ? 0 : 1] == in.shape(0).back(), "x of {} and a weight of {} do not fit",
              in.shape(0), in.shape(i));
      }
      return {{in.dtype(0), {in.shape(1)[0], in.shape(1)[1], in.shape(2)[transposed ? 1 : 0]}}};
    },
    .decompose = [](std::span<const Tensor> in, const Attributes& attributes) -> Tensors {
      const Tensor &x = in[0], &groups = in[1];
      const bool transposed = attributes.get_int("transposed") != 0;
      const int64_t first = attributes.get_int("first"), width = in[2].dim(transposed ? 1 : 0);
      Tensor result = zeros({groups.dim(0), groups.dim(1), width}, x.dtype());
      for (size_t i = 2; i < in.size(); ++i) {
        const Tensor all = product_of_rows(x, in[i], x.rank() - 1, transposed ? 0 : 1);
        result = select(rows_of_group(groups, first + static_cast<int64_t>(i) - 2, width), for_each_group(all, groups),
                        result);
      }
      return {result};
    },
    .gradient = [](const GradientRequest& request) -> Tensors {
      const Tensor &x = request.inputs[0], &groups = request.inputs[1], &dy = request.cotangents[0];
      const bool transposed = request.attributes.get_int("transposed") != 0;
      const int64_t first = request.attributes.get_int("first");
      const Tensors weights(request.inputs.begin() + 2, request.inputs.end());
      Tensors result(request.inputs.size());
      if (request.wanted(0)) {
        const Tensor each = grouped_linear(dy, groups, weights, kAsGiven, first, !transposed);
        result[0] = x.rank() == 2 ? reduce_sum(each, {1}) : each;
      }
      bool wanted = false;
      for (size_t i = 2; i < result.size(); ++i) wanted |= request.wanted(i);
      if (!wanted) return result;
      const auto count = static_cast<int64_t>(weights.size());
      const Tensors made = grouped_linear_weight_gradient(dy, x, groups, count, first);
      for (size_t i = 2; i < result.size(); ++i)
        if (request.wanted(i)) result[i] = transposed ? permute(made[i - 2], {1, 0}) : made[i - 2];
      return result;
    },
    .samples = []() -> std::vector<Sample> {
      std::vector<Sample> samples;
      for (const DType dtype : {DType::kFloat32, DType::kBFloat16}) {
        const auto sample = [&](Shape x, Shape groups, Shape weight, size_t count, int64_t first, int64_t transposed,
                                int64_t drawn) {
          Sample made{{{dtype, std::move(x)}, {DType::kInt64, std::move(groups)}},
                      {{"first", first}, {"transposed", transposed}},
                      -1,
                      1,
                      drawn};
          for (size_t i = 0; i < count; ++i) made.inputs.push_back({dtype, weight});
          samples.push_back(std::move(made));
        };
        sample({7, 5}, {7, 2}, {3, 5}, 4, 0, 0, 4);
        sample({7, 2, 5}, {7, 2}, {5, 3}, 4, 0, 1, 4);
        sample({40, 33}, {40, 1}, {17, 33}, 3, 2, 0, 6);  // rows of groups without a weight
        sample({1, 19}, {1, 2}, {70, 19}, 8, 0, 0, 8);    // groups without rows
        sample({0, 7}, {0, 2}, {3, 7}, 2, 0, 0, 2);
        sample({5, 7}, {5, 2}, {0, 7}, 2, 0, 0, 2);
      }
      return samples;
    }};

const Operation kGroupedLinearWeightGradient = {
    .name = "grouped_linear_weight_gradient",
    .kind = OperationKind::kComposite,
    .documentation =
        "dy [N, k, O], x [N, K] or [N, k, K], groups i64 [N, k]: for each of `count` groups from `first` on the sum of "
        "dy^T x over its rows, [O, K].",
    .category = Category::kProducts,
    .flops =
        [](const CostRequest& cost) {
          return 2 * rows_in(cost.inputs[2]) * static_cast<double>(elements(cost.outputs[0].shape));
        },
    .error = ErrorBounds{{ErrorScale::kTerms, 0.5}, {ErrorScale::kTensor, 3}},
    .infer = [](const Inference& in) -> std::vector<Type> {
      expect_inputs(in, 3);
      expect_floating(in, 0);
      check(in, in.dtype(0) == in.dtype(1) && in.rank(0) == 3, "expected dy and x of one type, found {} and {}",
            in.inputs[0], in.inputs[1]);
      expect_rows(in, 0, 2);
      expect_rows(in, 1, 2);
      const int64_t count = in.attributes.get_int("count");
      expect_between(in, {count}, 1, 1 << 16, "a number of groups");
      return std::vector<Type>(static_cast<size_t>(count), {in.dtype(0), {in.shape(0).back(), in.shape(1).back()}});
    },
    .decompose = [](std::span<const Tensor> in, const Attributes& attributes) -> Tensors {
      const Tensor &dy = in[0], &groups = in[2];
      const int64_t rows = groups.size(), O = dy.dim(2), K = in[1].shape().back(), first = attributes.get_int("first");
      const Tensor x = reshape(for_each_group(in[1], groups), {rows, K}), none = zeros(dy.shape(), dy.dtype());
      Tensors result;
      for (int64_t i = 0; i < attributes.get_int("count"); ++i) {
        const Tensor mine = select(rows_of_group(groups, first + i, O), dy, none);
        result.push_back(product_of_rows(reshape(mine, {rows, O}), x, 0, 0));
      }
      return result;
    },
    .samples = []() -> std::vector<Sample> {
      std::vector<Sample> samples;
      for (const DType dtype : {DType::kFloat32, DType::kBFloat16}) {
        const auto sample = [&](Shape dy, Shape x, int64_t count, int64_t first, int64_t drawn) {
          const Shape groups{dy[0], dy[1]};
          samples.push_back({{{dtype, std::move(dy)}, {dtype, std::move(x)}, {DType::kInt64, groups}},
                             {{"count", count}, {"first", first}},
                             -1,
                             1,
                             drawn});
        };
        sample({7, 2, 3}, {7, 5}, 4, 0, 4);
        sample({7, 2, 3}, {7, 2, 5}, 4, 0, 4);
        sample({40, 1, 17}, {40, 33}, 3, 2, 6);
        sample({1, 2, 70}, {1, 19}, 8, 0, 8);
        sample({0, 2, 3}, {0, 7}, 2, 0, 2);
      }
      return samples;
    }};

}  // namespace

const RegisterOperations kRegisteredGroupedLinear{&kGroupedLinear, &kGroupedLinearWeightGradient};

namespace op {
const Operation &grouped_linear = kGroupedLinear, &grouped_linear_weight_gradient = kGroupedLinearWeightGradient;
}  // namespace op

Tensor grouped_linear(const Tensor& x, const Tensor& groups, std::vector<Tensor> weights, const Computing& computing,
                      int64_t first, bool transposed) {
  Tensors inputs{x, groups};
  inputs.insert(inputs.end(), weights.begin(), weights.end());
  return make_tensor(kGroupedLinear, autocast_inputs(kGroupedLinear, std::move(inputs), computing),
                     {{"first", first}, {"transposed", static_cast<int64_t>(transposed)}});
}

std::vector<Tensor> grouped_linear_weight_gradient(const Tensor& dy, const Tensor& x, const Tensor& groups,
                                                   int64_t count, int64_t first) {
  return make_tensors(kGroupedLinearWeightGradient, {dy, x, groups}, {{"count", count}, {"first", first}});
}

}  // namespace transom
