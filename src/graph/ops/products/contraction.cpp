// SPDX-License-Identifier: Apache-2.0
// Matrix products: dot_general, the one primitive, and linear, a layer of weights in the layout of checkpoints, with
// what its weight and bias get of a gradient.
#include <algorithm>

#include "graph/ops/computing.h"
#include "graph/ops/elementwise/quantization.h"
#include "graph/ops/records.h"
#include "graph/ops/rules.h"

namespace transom {
namespace {

Axes free_axes(int64_t rank, const Axes& batch, const Axes& contract) {
  Axes axes;
  for (int64_t axis = 0; axis < rank; ++axis)
    if (!holds(batch, axis) && !holds(contract, axis)) axes.push_back(axis);
  return axes;
}

Axes range(size_t begin, size_t count) {
  Axes axes(count);
  std::iota(axes.begin(), axes.end(), static_cast<int64_t>(begin));
  return axes;
}

DotAxes axes_of(const Attributes& attributes) {
  return {attributes.get_ints("x_batch"), attributes.get_ints("y_batch"), attributes.get_ints("x_contract"),
          attributes.get_ints("y_contract")};
}

void expect_pairs(const Inference& in, std::string_view what, const Axes& x, const Axes& y) {
  check(in, x.size() == y.size(), "{} {} axes of x meet {} of y", x.size(), what, y.size());
  for (size_t i = 0; i < x.size(); ++i) {
    expect_axis(in, x[i], in.rank(0));
    expect_axis(in, y[i], in.rank(1));
    check(in, in.shape(0)[static_cast<size_t>(x[i])] == in.shape(1)[static_cast<size_t>(y[i])],
          "{} axis {} of {} and axis {} of {} have different extents", what, x[i], in.shape(0), y[i], in.shape(1));
  }
}

void expect_distinct(const Inference& in, Axes axes, const Axes& more) {
  axes.insert(axes.end(), more.begin(), more.end());
  std::sort(axes.begin(), axes.end());
  check(in, std::adjacent_find(axes.begin(), axes.end()) == axes.end(), "an axis stands twice among [{}]",
        fmt::join(axes, ", "));
}

std::vector<Type> infer_dot(const Inference& in) {
  expect_inputs(in, 2);
  expect_same_types(in, 0, 1);
  check(in, in.dtype(0) != DType::kBool, "expected numbers, found bool");
  const DotAxes axes = axes_of(in.attributes);
  expect_pairs(in, "batch", axes.x_batch, axes.y_batch);
  expect_pairs(in, "contracted", axes.x_contract, axes.y_contract);
  expect_distinct(in, axes.x_batch, axes.x_contract);
  expect_distinct(in, axes.y_batch, axes.y_contract);
  Shape shape;
  for (const int64_t axis : axes.x_batch) shape.push_back(in.shape(0)[static_cast<size_t>(axis)]);
  for (const int64_t axis : free_axes(in.rank(0), axes.x_batch, axes.x_contract))
    shape.push_back(in.shape(0)[static_cast<size_t>(axis)]);
  for (const int64_t axis : free_axes(in.rank(1), axes.y_batch, axes.y_contract))
    shape.push_back(in.shape(1)[static_cast<size_t>(axis)]);
  const DType dtype = expect_dtype(in);
  check(in, dtype == in.dtype(0) || dtype == DType::kFloat32, "an output of {} from {} is not offered", name_of(dtype),
        in.inputs[0]);
  return {{dtype, shape}};
}

void evaluate_dot(std::span<const Array> in, const Attributes& attributes, std::span<Array> out) {
  const DotAxes axes = axes_of(attributes);
  const Axes x_strides = strides_of(in[0].type.shape), y_strides = strides_of(in[1].type.shape);
  const auto x_rank = static_cast<int64_t>(x_strides.size()), y_rank = static_cast<int64_t>(y_strides.size());
  Axes x_moved, y_moved;  // strides along the output's axes
  for (size_t i = 0; i < axes.x_batch.size(); ++i) {
    x_moved.push_back(x_strides[static_cast<size_t>(axes.x_batch[i])]);
    y_moved.push_back(y_strides[static_cast<size_t>(axes.y_batch[i])]);
  }
  for (const int64_t axis : free_axes(x_rank, axes.x_batch, axes.x_contract))
    x_moved.push_back(x_strides[static_cast<size_t>(axis)]), y_moved.push_back(0);
  for (const int64_t axis : free_axes(y_rank, axes.y_batch, axes.y_contract))
    x_moved.push_back(0), y_moved.push_back(y_strides[static_cast<size_t>(axis)]);
  Shape contracted;
  Axes x_inner, y_inner;
  for (size_t i = 0; i < axes.x_contract.size(); ++i) {
    contracted.push_back(in[0].type.shape[static_cast<size_t>(axes.x_contract[i])]);
    x_inner.push_back(x_strides[static_cast<size_t>(axes.x_contract[i])]);
    y_inner.push_back(y_strides[static_cast<size_t>(axes.y_contract[i])]);
  }
  std::vector<std::pair<size_t, size_t>> inner;  // offsets of the products to add
  for_each_index(contracted, [&](const Axes& index) {
    inner.emplace_back(static_cast<size_t>(offset_of(index, x_inner)), static_cast<size_t>(offset_of(index, y_inner)));
  });
  int64_t place = 0;
  for_each_index(out[0].type.shape, [&](const Axes& index) {
    const auto x = static_cast<size_t>(offset_of(index, x_moved)), y = static_cast<size_t>(offset_of(index, y_moved));
    if (in[0].floating()) {
      double total = 0;
      for (const auto& [i, j] : inner) total += in[0].real[x + i] * in[1].real[y + j];
      out[0].set(place++, total);
    } else {
      int64_t total = 0;
      for (const auto& [i, j] : inner)
        total = wrapping_add(total, wrapping_multiply(in[0].integer[x + i], in[1].integer[y + j]));
      if (out[0].floating()) out[0].set(place++, static_cast<double>(total));
      else out[0].integer[static_cast<size_t>(place++)] = total;
    }
  });
}

// The product as records make it: of operands as they are, whatever the node was computed under. `of`: the attributes
// of the node whose gradient it is part of.
Tensor product_of(const Attributes& of, const Tensor& x, const Tensor& y, const DotAxes& axes);

// The gradient for one side: the cotangent against the other side. `mine` says which axes of this input are batch, free
// and contracted; `raw` lists, for each axis of the product, the axis of this input that it is.
Tensor in_order(const Tensor& product, const Axes& raw) {
  Axes permutation(raw.size());
  for (size_t i = 0; i < raw.size(); ++i) permutation[static_cast<size_t>(raw[i])] = static_cast<int64_t>(i);
  return permute(product, permutation);
}

std::vector<Tensor> dot_gradient(const GradientRequest& request) {
  const Tensor &x = request.inputs[0], &y = request.inputs[1];
  const DotAxes axes = axes_of(request.attributes);
  const Tensor dy = cast(request.cotangents[0], x.dtype());
  const size_t batch = axes.x_batch.size();
  const Axes x_free = free_axes(x.rank(), axes.x_batch, axes.x_contract),
             y_free = free_axes(y.rank(), axes.y_batch, axes.y_contract);
  std::vector<Tensor> result(2);
  if (request.wanted(0)) {
    // Axes of the product: batch, free axes of x, then y's contracted axes as they stand in y.
    const Tensor product =
        product_of(request.attributes, dy, y,
                   {range(0, batch), axes.y_batch, range(batch + x_free.size(), y_free.size()), y_free});
    Axes raw = axes.x_batch;
    raw.insert(raw.end(), x_free.begin(), x_free.end());
    for (int64_t axis = 0; axis < y.rank(); ++axis)
      for (size_t k = 0; k < axes.y_contract.size(); ++k)
        if (axes.y_contract[k] == axis) raw.push_back(axes.x_contract[k]);
    result[0] = in_order(product, raw);
  }
  if (request.wanted(1)) {
    // Axes of the product: batch, x's contracted axes as they stand in x, then free axes of y.
    const Tensor product =
        product_of(request.attributes, x, dy, {axes.x_batch, range(0, batch), x_free, range(batch, x_free.size())});
    Axes raw = axes.y_batch;
    for (int64_t axis = 0; axis < x.rank(); ++axis)
      for (size_t k = 0; k < axes.x_contract.size(); ++k)
        if (axes.x_contract[k] == axis) raw.push_back(axes.y_contract[k]);
    raw.insert(raw.end(), y_free.begin(), y_free.end());
    result[1] = in_order(product, raw);
  }
  return result;
}

Attributes dot_attributes(const DotAxes& axes, DType dtype) {
  return {{"x_batch", axes.x_batch},
          {"y_batch", axes.y_batch},
          {"x_contract", axes.x_contract},
          {"y_contract", axes.y_contract},
          {"dtype", static_cast<int64_t>(dtype)}};
}

double flops_of_dot_general(const CostRequest& cost) {
  double contracted = 1;
  for (const int64_t axis : cost.attributes.get_ints("x_contract"))
    contracted *= static_cast<double>(cost.inputs[0].shape[static_cast<size_t>(axis)]);
  return 2 * contracted * static_cast<double>(elements(cost.outputs[0].shape));
}

double flops_of_linear(const CostRequest& cost) {
  return 2 * static_cast<double>(cost.inputs[1].shape[1]) * static_cast<double>(elements(cost.outputs[0].shape));
}

const Operation kDotGeneral = {
    .name = "dot_general",
    .documentation = "Sums of products over the contracted axes: batch axes, then the other axes of x, then of y.",
    .category = Category::kProducts,
    .autocast = AutocastClass::kLow,
    .flops = flops_of_dot_general,
    .error = kSumError,
    .infer = infer_dot,
    .evaluate = evaluate_dot,
    .gradient = dot_gradient,
    .samples = []() -> std::vector<Sample> {
      std::vector<Sample> samples;
      const auto add = [&](const Shape& x, const Shape& y, const DotAxes& axes) {
        for (const DType dtype : {DType::kFloat32, DType::kBFloat16, DType::kFloat16, DType::kFloat64, DType::kInt32})
          samples.push_back({{{dtype, x}, {dtype, y}}, dot_attributes(axes, dtype), -1, 1, 8});
        samples.push_back(
            {{{DType::kBFloat16, x}, {DType::kBFloat16, y}}, dot_attributes(axes, DType::kFloat32), -1, 1});
      };
      add({5, 7}, {7, 3}, {{}, {}, {1}, {0}});
      add({5, 7}, {3, 7}, {{}, {}, {1}, {1}});
      add({7, 5}, {7, 3}, {{}, {}, {0}, {0}});
      add({1, 17}, {17, 33}, {{}, {}, {1}, {0}});
      add({33, 65}, {17, 65}, {{}, {}, {1}, {1}});
      add({2, 3, 5}, {2, 5, 4}, {{0}, {0}, {2}, {1}});
      add({2, 6, 3, 5}, {2, 4, 3, 5}, {{0, 2}, {0, 2}, {3}, {3}});  // attention scores on [B, T, H, d]
      add({2, 3, 6, 4}, {2, 4, 3, 5}, {{0, 1}, {0, 2}, {3}, {1}});  // attention context
      add({3, 4, 5}, {5, 4, 2}, {{}, {}, {1, 2}, {1, 0}});
      add({4}, {4}, {{}, {}, {0}, {0}});
      add({3}, {2}, {{}, {}, {}, {}});
      add({3, 0}, {0, 2}, {{}, {}, {1}, {0}});
      add({0, 3}, {3, 2}, {{}, {}, {1}, {0}});
      return samples;
    }};

// One operation, since libraries of GPUs sum the rows of dy as they read them for the product.
const Operation kLinearWeightGradient = {
    .name = "linear_weight_gradient",
    .kind = OperationKind::kComposite,
    .documentation = "dy [M, N], x [M, K]: dy^T x [N, K], and the sums of dy over its rows [N].",
    .category = Category::kProducts,
    .flops =
        [](const CostRequest& cost) {
          return 2 * static_cast<double>(cost.inputs[0].shape[0]) *
                 static_cast<double>(elements(cost.outputs[0].shape));
        },
    .error = kSumError,
    .infer = [](const Inference& in) -> std::vector<Type> {
      expect_inputs(in, 2);
      expect_floating(in, 0);
      expect_same_types(in, 0, 1);
      check(in, in.rank(0) == 2 && in.rank(1) == 2 && in.shape(0)[0] == in.shape(1)[0],
            "expected matrices of as many rows, found {} and {}", in.inputs[0], in.inputs[1]);
      const int64_t outputs = in.shape(0)[1];
      return {{in.dtype(0), {outputs, in.shape(1)[1]}}, {in.dtype(0), {outputs}}};
    },
    .decompose = [](std::span<const Tensor> in, const Attributes& attributes) -> std::vector<Tensor> {
      return {product_of(attributes, in[0], in[1], {{}, {}, {0}, {0}}), reduce_sum(in[0], {0})};
    },
    .samples = []() -> std::vector<Sample> {
      std::vector<Sample> samples;
      for (const DType dtype : {DType::kFloat32, DType::kBFloat16}) {
        const auto sample = [&](int64_t M, int64_t N, int64_t K) {
          samples.push_back({{{dtype, {M, N}}, {dtype, {M, K}}}, {}, -1, 1});
        };
        sample(7, 3, 5);
        sample(33, 17, 65);
        sample(1, 48, 19);
        sample(0, 3, 7);
        sample(4, 0, 5);
        sample(4, 3, 0);
      }
      return samples;
    }};

const Operation kLinear = {
    .name = "linear",
    .kind = OperationKind::kComposite,
    .documentation = "x [..., K], w [N, K], b [N]: x w^T + b.",
    .category = Category::kProducts,
    .autocast = AutocastClass::kLow,
    .flops = flops_of_linear,
    // A device that supports none of these rounds between the product and the bias, and at each addition.
    .error = ErrorBounds{{ErrorScale::kTerms, 0.5}, {ErrorScale::kTensor, 3}},
    .infer = [](const Inference& in) -> std::vector<Type> {
      check(in, in.inputs.size() == 2 || in.inputs.size() == 3, "expected x, w and perhaps b");
      expect_same_types(in, 0, 1);
      check(in, in.rank(0) >= 1 && in.rank(1) == 2 && in.shape(0).back() == in.shape(1)[1],
            "x of {} and a weight of {} do not fit: the last axes must be equal", in.shape(0), in.shape(1));
      if (in.inputs.size() == 3) {
        expect_same_types(in, 0, 2);
        check(in, in.shape(2) == Shape{in.shape(1)[0]}, "expected a bias of [{}], found {}", in.shape(1)[0],
              in.shape(2));
      }
      Shape shape = in.shape(0);
      shape.back() = in.shape(1)[0];
      return {{in.dtype(0), shape}};
    },
    .decompose = [](std::span<const Tensor> in, const Attributes& attributes) -> std::vector<Tensor> {
      Attributes product_attributes = dot_attributes({{}, {}, {in[0].rank() - 1}, {1}}, in[0].dtype());
      for (const char* name : {kBatchInvariant, kTf32})
        if (attributes.has(name)) product_attributes.set(name, int64_t{1});
      const Tensor product = make_tensor(kDotGeneral, {in[0], in[1]}, product_attributes);
      return {in.size() == 3 ? product + in[2] : product};
    },
    .gradient = [](const GradientRequest& request) -> std::vector<Tensor> {
      const Tensor &x = request.inputs[0], &w = request.inputs[1], &dy = request.cotangents[0];
      std::vector<Tensor> result(request.inputs.size());
      // Counted here: an extent of 0 leaves no way to tell what -1 would be.
      const int64_t rows = elements(Shape(x.shape().begin(), x.shape().end() - 1));
      if (request.wanted(0)) result[0] = product_of(request.attributes, dy, w, {{}, {}, {dy.rank() - 1}, {0}});
      const bool weight = request.wanted(1), bias = request.inputs.size() == 3 && request.wanted(2);
      if (!weight && !bias) return result;
      const Tensor of_rows = reshape(dy, {rows, w.dim(0)});
      if (!weight) {
        result[2] = reduce_sum(of_rows, {0});
        return result;
      }
      const Tensor x_rows = reshape(x, {rows, w.dim(1)});
      if (!bias) {
        result[1] = product_of(request.attributes, of_rows, x_rows, {{}, {}, {0}, {0}});
        return result;
      }
      Attributes attributes;
      if (request.attributes.has(kTf32)) attributes.set(kTf32, int64_t{1});
      std::vector<Tensor> both = make_tensors(kLinearWeightGradient, {of_rows, x_rows}, std::move(attributes));
      result[1] = std::move(both[0]), result[2] = std::move(both[1]);
      return result;
    },
    .samples = []() -> std::vector<Sample> {
      std::vector<Sample> samples;
      for (const DType dtype : {DType::kFloat32, DType::kBFloat16}) {
        samples.push_back({{{dtype, {2, 5, 7}}, {dtype, {3, 7}}, {dtype, {3}}}, {}, -1, 1});
        samples.push_back({{{dtype, {33, 65}}, {dtype, {17, 65}}}, {}, -1, 1});
        samples.push_back({{{dtype, {1, 19}}, {dtype, {48, 19}}, {dtype, {48}}}, {}, -1, 1});
        samples.push_back({{{dtype, {0, 7}}, {dtype, {3, 7}}, {dtype, {3}}}, {}, -1, 1});
        samples.push_back({{{dtype, {2, 4, 0}}, {dtype, {3, 0}}, {dtype, {3}}}, {}, -1, 1});
        samples.push_back({{{dtype, {2, 4, 5}}, {dtype, {0, 5}}, {dtype, {0}}}, {}, -1, 1});
      }
      return samples;
    }};

Tensor product_of(const Attributes& of, const Tensor& x, const Tensor& y, const DotAxes& axes) {
  Attributes attributes = dot_attributes(axes, x.dtype());
  if (of.has(kTf32)) attributes.set(kTf32, int64_t{1});
  return make_tensor(kDotGeneral, {x, y}, std::move(attributes));
}

}  // namespace

const RegisterOperations kRegisteredContraction{&kDotGeneral, &kLinear, &kLinearWeightGradient};

namespace op {
const Operation& dot_general = kDotGeneral;
}  // namespace op

Tensor dot_general(const Tensor& x, const Tensor& y, const DotAxes& axes, const Computing& computing,
                   std::optional<DType> dtype) {
  std::vector<Tensor> inputs = autocast_inputs(kDotGeneral, {x, y}, computing);
  Attributes attributes = dot_attributes(axes, dtype.value_or(inputs[0].dtype()));
  keep_rows_apart(attributes, computing);
  allow_tf32(attributes, inputs[0].dtype(), computing);
  return make_tensor(kDotGeneral, std::move(inputs), attributes);
}

Tensor matmul(const Tensor& x, const Tensor& y, const Computing& computing) {
  if (x.rank() < 2 || y.rank() < 2)
    fail("{}matmul: expected two matrices or stacks of them, found {} and {}", scope_prefix(), to_string(x.shape()),
         to_string(y.shape()));
  const int64_t rank = std::max(x.rank(), y.rank());
  const auto stacked = [&](const Tensor& t, const Tensor& other) {
    Shape shape = rank == t.rank() ? t.shape() : other.shape();
    for (int64_t axis = 0; axis < rank - 2; ++axis) {
      const int64_t a = axis - (rank - t.rank()), b = axis - (rank - other.rank());
      const int64_t mine = a < 0 ? 1 : t.dim(a);
      shape[static_cast<size_t>(axis)] = mine == 1 && b >= 0 ? other.dim(b) : mine;
    }
    shape[static_cast<size_t>(rank - 2)] = t.dim(-2);
    shape[static_cast<size_t>(rank - 1)] = t.dim(-1);
    return broadcast_to(t, shape);
  };
  const Axes batch = range(0, static_cast<size_t>(rank - 2));
  return dot_general(stacked(x, y), stacked(y, x), {batch, batch, {rank - 1}, {rank - 2}}, computing);
}

Tensor linear(const Tensor& x, const Tensor& weight, const Tensor& bias, const Computing& computing) {
  if (computing.int8) return quantized_linear(x, weight, bias, computing);
  std::vector<Tensor> inputs{x, weight};
  if (bias.defined()) inputs.push_back(bias);
  inputs = autocast_inputs(kLinear, std::move(inputs), computing);
  Attributes attributes;
  keep_rows_apart(attributes, computing);
  allow_tf32(attributes, inputs[0].dtype(), computing);
  return make_tensor(kLinear, std::move(inputs), std::move(attributes));
}

}  // namespace transom
