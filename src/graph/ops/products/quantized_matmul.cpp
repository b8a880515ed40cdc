// SPDX-License-Identifier: Apache-2.0
// Products with packed matrices. The decomposition dequantises, so that devices without a kernel for the codes compute
// with ordinary matrices, which they keep.
#include <cmath>
#include <limits>
#include <numeric>

#include "base/error.h"
#include "graph/ops/computing.h"
#include "graph/ops/products/integer_products.h"
#include "graph/ops/products/packed_matrix.h"
#include "graph/ops/rules.h"

namespace transom {
namespace {

constexpr int64_t kRows = 16, kInputs = 32;  // that lie together
constexpr const char* kFloat8 = "float8";

int64_t blocks(int64_t count, int64_t size) { return (count + size - 1) / size; }

struct CodeForm {
  int64_t bits, rows, depth, group;
  bool minima, values, bias;
  std::string activations;

  explicit CodeForm(const Attributes& attributes)
      : bits(attributes.get_int("bits")),
        rows(attributes.get_int("rows")),
        depth(attributes.get_int("depth")),
        group(attributes.get_int("group")),
        minima(attributes.get_int("minima") != 0),
        values(attributes.get_int("values") != 0),
        bias(attributes.get_int("bias") != 0),
        activations(attributes.get_string("activations")) {}

  size_t inputs() const { return 3u + minima + values + bias; }
  Shape bytes() const { return {blocks(rows, kRows), blocks(depth, kInputs), bits == 4 ? 4 : 8, kRows, 4}; }
  Shape scales() const { return {blocks(rows, kRows), blocks(depth, group), kRows}; }
};

// Codes [n, ceil(K / 32), S, rows, 4] as numbers [n rows, K].
Tensor codes_of(const Tensor& bytes, int64_t bits, int64_t depth, DType dtype) {
  const int64_t n = bytes.dim(0), k = bytes.dim(1), rows = bytes.dim(3);
  Tensor codes = cast(bytes, dtype);
  if (bits == 4) {
    const Tensor high = floor(codes * (1.0 / 16));
    codes = concatenate({unsqueeze(codes - high * 16.0, 2), unsqueeze(high, 2)}, 2);  // [n, k, 2, 4, rows, 4]
    codes = reshape(codes, {n, k, 8, rows, 4});
  }
  codes = reshape(permute(codes, {0, 3, 1, 2, 4}), {n * rows, k * kInputs});
  return slice(codes, 1, 0, depth);
}

// Scales [n, G, rows] as [n rows, K], each for its group.
Tensor spread(const Tensor& scales, int64_t group, int64_t depth, DType dtype) {
  const int64_t n = scales.dim(0) * scales.dim(2), groups = scales.dim(1);
  const Tensor rows = reshape(permute(cast(scales, dtype), {0, 2, 1}), {n, groups, 1});
  return slice(reshape(broadcast_to(rows, {n, groups, group}), {n, groups * group}), 1, 0, depth);
}

// The numbers of n blocks of rows, [n rows, K].
Tensor numbers_of(const Tensor& bytes, const Tensor& scales, const Tensor& minima, const Tensor& values,
                  const PackedMatrix& form, DType dtype) {
  const Tensor codes = codes_of(bytes, form.bits, form.depth, dtype),
               factors = spread(scales, form.group, form.depth, dtype);
  if (values.defined()) return gather(cast(values, dtype), cast(codes, DType::kInt64), 0) * factors;
  if (minima.defined()) return codes * factors + spread(minima, form.group, form.depth, dtype);
  return (codes - (form.bits == 4 ? 8.0 : 128.0)) * factors;
}

// x [..., K] as products with inputs of f8_e4m3fn see it: each row in steps of its largest magnitude / 448. Written
// with operations that are exact in any type, so that all devices round alike.
Tensor rounded_to_float8(const Tensor& x) {
  constexpr double kLargest = 448;
  constexpr int kLeastExponent = -6, kMostExponent = 8, kPlaces = 3;  // below it the steps get no finer
  const DType dtype = x.dtype();
  const Tensor scale = reduce_max(abs(x), {x.rank() - 1}, true) / kLargest;
  const Tensor divisor = select(equal(scale, constant(0, dtype)), full(scale.shape(), 1, dtype), scale);
  const Tensor y = minimum(maximum(x / divisor, constant(-kLargest, dtype)), constant(kLargest, dtype));
  Tensor step = full(x.shape(), std::ldexp(1.0, kLeastExponent - kPlaces), dtype);
  for (int exponent = kLeastExponent + 1; exponent <= kMostExponent; ++exponent)
    step = select(greater_equal(abs(y), constant(std::ldexp(1.0, exponent), dtype)),
                  full(x.shape(), std::ldexp(1.0, exponent - kPlaces), dtype), step);
  return round(y / step) * step * scale;
}

// x [..., K] as products with inputs of 8 or 16 bits see it.
Tensor rounded(const Tensor& x, const std::string& activations) {
  if (activations == "float32") return x;
  if (activations == kFloat8) return rounded_to_float8(x);
  const bool by_token = activations == "int8_token";
  const int64_t depth = x.shape().back(), last = x.rank() - 1;
  const int64_t size = by_token ? depth : kInputs, padded = blocks(depth, size) * size;
  Tensor wide = x;
  if (padded != depth) {
    Axes none(static_cast<size_t>(x.rank()), 0), high = none;
    high.back() = padded - depth;
    wide = pad(x, none, high);
  }
  Shape shape = x.shape();
  shape.back() = padded / size;
  shape.push_back(size);
  const Tensor groups = reshape(wide, shape);
  const double most = by_token ? 127.5 : activations == "int16" ? 32767.0 : 127.0;
  const Tensor scale = reduce_max(abs(groups), {last + 1}, true) / most;
  const Tensor divisor = select(equal(scale, constant(0, scale.dtype())), full(scale.shape(), 1, scale.dtype()), scale);
  Tensor steps = round(groups / divisor);
  if (by_token) steps = minimum(maximum(steps, constant(-128, x.dtype())), constant(127, x.dtype()));
  shape.pop_back();
  shape.back() = padded;
  return slice(reshape(steps * scale, shape), last, 0, depth);
}

Tensor product(const Tensor& x, const Tensor& weight, DType wide, int64_t contracted) {
  return make_tensor(find_operation("dot_general"), {x, weight},
                     {{"x_batch", Axes{}},
                      {"y_batch", Axes{}},
                      {"x_contract", Axes{x.rank() - 1}},
                      {"y_contract", Axes{contracted}},
                      {"dtype", static_cast<int64_t>(wide)}});
}

// The parts of the (first) matrix, inputs 1 and on.
void check_matrix(const Inference& in, const CodeForm& form) {
  check(in, form.bits == 4 || form.bits == 8, "expected codes of 4 or 8 bits, found {}", form.bits);
  check(in, form.rows > 0 && form.depth > 0, "expected a matrix, found [{}, {}]", form.rows, form.depth);
  check(in, form.group == 16 || (form.group > 0 && form.group % kInputs == 0),
        "expected groups of 16 or of a multiple of 32, found {}", form.group);
  check(in,
        form.activations == "float32" || form.activations == "int8" || form.activations == "int16" ||
            form.activations == "int8_token" || form.activations == kFloat8,
        "unknown activations {}: expected float32, int8, int16, int8_token or float8", quoted(form.activations));
  check(in,
        form.activations != kFloat8 || (form.bits == 8 && form.group % kInputs == 0 && !form.minima && !form.values),
        "expected codes of 8 bits in groups of a multiple of 32 beside inputs of float8, without minima and values");
  check(in, !(form.minima && form.values), "expected minima or values, found both");
  check(in, in.inputs.size() >= form.inputs(),
        "expected x, bytes, scales and what the attributes name, found {} inputs", in.inputs.size());
  expect_floating(in, 0);
  check(in, in.dtype(1) == DType::kUInt8 && in.shape(1) == form.bytes(), "expected bytes u8 {}, found {}",
        to_string(form.bytes()), in.inputs[1]);
  // f64 beside x of f64, where gradients are compared with differences.
  const auto is_f64 = [&](size_t i) { return in.dtype(0) == DType::kFloat64 && in.dtype(i) == DType::kFloat64; };
  check(in,
        (in.dtype(2) == DType::kFloat16 || in.dtype(2) == DType::kFloat32 || is_f64(2)) && in.shape(2) == form.scales(),
        "expected scales f16 or f32 {}, found {}", to_string(form.scales()), in.inputs[2]);
  size_t next = 3;
  if (form.minima) expect_same_types(in, 2, next), ++next;
  if (form.values) {
    const Shape expected{form.bits == 4 ? 16 : 256};
    check(in, (in.dtype(next) == DType::kFloat32 || is_f64(next)) && in.shape(next) == expected,
          "expected values f32 {}, found {}", to_string(expected), in.inputs[next]);
  }
}

void check_parts(const Inference& in, const CodeForm& form) {
  check_matrix(in, form);
  check(in, in.inputs.size() == form.inputs(),
        "expected x, bytes, scales and what the attributes name, found {} inputs", in.inputs.size());
}

std::vector<Type> infer_codes(const Inference& in) {
  const CodeForm form(in.attributes);
  check_parts(in, form);
  check(in, in.rank(0) >= 1 && in.shape(0).back() == form.depth, "x of {} and a depth of {} do not fit", in.shape(0),
        form.depth);
  const size_t next = form.inputs() - 1;
  if (form.bias)
    check(in, in.shape(next) == Shape{form.rows} && in.dtype(next) == in.dtype(0), "expected a bias of [{}], found {}",
          form.rows, in.inputs[next]);
  Shape shape = in.shape(0);
  shape.back() = form.rows;
  return {{in.dtype(0), shape}};
}

DType wide_of(const Tensor& x) { return x.dtype() == DType::kFloat64 ? DType::kFloat64 : DType::kFloat32; }

// The matrix [N, K] of a node's inputs.
Tensor weight_of(std::span<const Tensor> in, const CodeForm& form, DType wide) {
  const PackedMatrix matrix{.bits = form.bits, .rows = form.rows, .depth = form.depth, .group = form.group};
  size_t next = 3;
  const Tensor minima = form.minima ? in[next++] : Tensor(), values = form.values ? in[next++] : Tensor();
  return slice(numbers_of(in[1], in[2], minima, values, matrix, wide), 0, 0, form.rows);
}

// The numbers of f8_e4m3fn by their codes, as operations, since a decomposition holds no data.
Tensor float8_table() {
  const Shape shape{256};
  const auto all = [&](double value) { return full(shape, value); };
  const Tensor code = cast(iota(shape, 0), DType::kFloat32), is_negative = greater_equal(code, all(128));
  const Tensor magnitude = select(is_negative, code - 128.0, code), exponent = floor(magnitude * 0.125),
               places = magnitude - exponent * 8.0;
  Tensor value = places * std::ldexp(1.0, -9);
  for (int e = 1; e < 16; ++e) value = select(equal(exponent, all(e)), (places + 8.0) * std::ldexp(1.0, e - 10), value);
  value = select(equal(magnitude, all(127)), all(std::numeric_limits<double>::quiet_NaN()), value);
  return select(is_negative, -value, value);
}

// Rounded inputs, and codes of the table that they stand for: they stay codes on devices that do not multiply float8.
std::vector<Tensor> decompose_float8(std::span<const Tensor> in, Attributes attributes) {
  const DType dtype = in[0].dtype(), wide = wide_of(in[0]);
  std::vector<Tensor> inputs(in.begin(), in.end());
  inputs[0] = rounded_to_float8(cast(in[0], wide));
  if (inputs.size() > 3) inputs[3] = cast(inputs[3], wide);  // the bias
  inputs.insert(inputs.begin() + 3, float8_table());
  attributes.set("values", int64_t{1});
  attributes.set("activations", std::string("float32"));
  return {cast(make_tensor(find_operation("quantized_matmul"), std::move(inputs), std::move(attributes)), dtype)};
}

std::vector<Tensor> decompose_codes(std::span<const Tensor> in, const Attributes& attributes) {
  const CodeForm form(attributes);
  if (form.activations == kFloat8) return decompose_float8(in, attributes);
  const DType wide = wide_of(in[0]);
  const Tensor y = product(rounded(cast(in[0], wide), form.activations), weight_of(in, form, wide), wide, 1);
  return {cast(form.bias ? y + cast(in[form.inputs() - 1], wide) : y, in[0].dtype())};
}

std::vector<Sample> samples_of_codes(bool of_gradient) {
  std::vector<Sample> samples;
  const auto add = [&](DType dtype, Shape x, CodeForm form) {
    if (of_gradient) x.back() = form.rows, form.bias = false;
    Sample sample{{{dtype, x}, {DType::kUInt8, form.bytes()}, {DType::kFloat32, form.scales()}}, {}, -0.25, 0.25, 16};
    if (form.minima) sample.inputs.push_back({DType::kFloat32, form.scales()});
    if (form.values) sample.inputs.push_back({DType::kFloat32, {form.bits == 4 ? 16 : 256}});
    if (form.bias) sample.inputs.push_back({dtype, {form.rows}});
    sample.attributes = {{"bits", form.bits},
                         {"rows", form.rows},
                         {"depth", form.depth},
                         {"group", form.group},
                         {"minima", static_cast<int64_t>(form.minima)},
                         {"values", static_cast<int64_t>(form.values)},
                         {"bias", static_cast<int64_t>(form.bias)},
                         {"activations", form.activations}};
    if (form.bits == 8) sample.index_limit = 256;
    samples.push_back(std::move(sample));
  };
  for (const int64_t bits : {4, 8})
    for (const DType dtype : {DType::kFloat32, DType::kBFloat16})
      for (const int kind : {0, 1, 2}) {  // plain, with minima, with values
        CodeForm form{Attributes{{"bits", bits},
                                 {"rows", int64_t{19}},
                                 {"depth", int64_t{72}},
                                 {"group", int64_t{kind == 1 ? 16 : 32}},
                                 {"minima", int64_t{kind == 1}},
                                 {"values", int64_t{kind == 2}},
                                 {"bias", int64_t{kind != 1}},
                                 {"activations", std::string("float32")}}};
        add(dtype, {2, 3, 72}, form);
        form.rows = 48, form.group = 96;
        add(dtype, {1, 72}, form);
      }
  return samples;
}

const Operation kQuantizedMatmulGradient = {
    .name = "quantized_matmul_gradient",
    .kind = OperationKind::kComposite,
    .documentation =
        "dy [..., N] and the parts of a matrix as of quantized_matmul: dy w, the gradient of its x. `activations` and "
        "`bias` say nothing here.",
    .category = Category::kProducts,
    .infer = [](const Inference& in) -> std::vector<Type> {
      const CodeForm form(in.attributes);
      check_parts(in, form);
      check(in, in.rank(0) >= 1 && in.shape(0).back() == form.rows, "dy of {} and {} rows do not fit", in.shape(0),
            form.rows);
      check(in, !form.bias, "expected no bias");
      Shape shape = in.shape(0);
      shape.back() = form.depth;
      return {{in.dtype(0), shape}};
    },
    .decompose = [](std::span<const Tensor> in, const Attributes& attributes) -> std::vector<Tensor> {
      const CodeForm form(attributes);
      const DType wide = wide_of(in[0]);
      return {cast(product(cast(in[0], wide), weight_of(in, form, wide), wide, 0), in[0].dtype())};
    },
    .samples = [] { return samples_of_codes(true); }};

// By the numbers of the codes, which stay codes: what is rounded of x counts as x. Whoever wants gradients of the
// matrix's own parts gets them through the decomposition.
std::vector<Tensor> gradient(const GradientRequest& request) {
  const CodeForm form(request.attributes);
  const size_t parts = form.inputs() - form.bias;
  for (size_t i = 1; i < parts; ++i)
    if (request.wanted(i)) return {};
  std::vector<Tensor> result(request.inputs.size());
  const Tensor& dy = request.cotangents[0];
  if (request.wanted(0)) {
    std::vector<Tensor> inputs(request.inputs.begin(), request.inputs.begin() + static_cast<std::ptrdiff_t>(parts));
    inputs[0] = dy;
    Attributes attributes = request.attributes;
    attributes.set("bias", int64_t{0});
    attributes.set("activations", std::string("float32"));
    if (form.activations == kFloat8) {
      inputs.insert(inputs.begin() + 3, float8_table());
      attributes.set("values", int64_t{1});
    }
    result[0] = make_tensor(kQuantizedMatmulGradient, std::move(inputs), std::move(attributes));
  }
  if (form.bias && request.wanted(parts)) {
    Axes rows(static_cast<size_t>(dy.rank()) - 1);
    std::iota(rows.begin(), rows.end(), int64_t{0});
    result[parts] = reduce_sum(dy, rows);
  }
  return result;
}

const Operation kQuantizedMatmul = {
    .name = "quantized_matmul",
    .kind = OperationKind::kComposite,
    .documentation =
        "x [..., K], bytes u8 [ceil(N / 16), ceil(K / 32), S, 16, 4], scales [ceil(N / 16), ceil(K / group), 16], "
        "perhaps "
        "minima, values, b [N]: x w^T + b, where w [rows N, depth K] is packed as "
        "src/graph/ops/products/packed_matrix.h "
        "says, and x "
        "is "
        "read as `activations` says.",
    .category = Category::kProducts,
    .infer = infer_codes,
    .decompose = [](std::span<const Tensor> in,
                    const Attributes& attributes) { return decompose_codes(in, attributes); },
    .gradient = gradient,
    .samples = [] { return samples_of_codes(false); }};

// ---- by groups

// The parts of each matrix, between x and the groups.
size_t parts_of_group(const CodeForm& form) { return form.inputs() - 1; }

std::vector<Type> infer_grouped_codes(const Inference& in) {
  const CodeForm form(in.attributes);
  check_matrix(in, form);
  check(in, !form.bias && form.activations != kFloat8, "expected no bias, and no inputs of float8");
  const size_t parts = parts_of_group(form), last = in.inputs.size() - 1;
  check(in, last > parts && (last - 1) % parts == 0, "expected x, {} parts of each matrix, and groups, found {} inputs",
        parts, in.inputs.size());
  check(in, in.dtype(last) == DType::kInt64 && in.rank(last) == 2, "expected groups i64 [N, k], found {}",
        in.inputs[last]);
  const Shape &x = in.shape(0), &groups = in.shape(last);
  check(in, (x.size() == 2 || (x.size() == 3 && x[1] == groups[1])) && x[0] == groups[0] && x.back() == form.depth,
        "x of {}, groups of {} and a depth of {} do not fit", x, groups, form.depth);
  for (size_t i = 1; i < last; ++i)
    check(in, in.inputs[i] == in.inputs[1 + (i - 1) % parts], "expected matrices of one form, found {} and {}",
          in.inputs[i], in.inputs[1 + (i - 1) % parts]);
  return {{in.dtype(0), {groups[0], groups[1], form.rows}}};
}

std::vector<Tensor> decompose_grouped_codes(std::span<const Tensor> in, const Attributes& attributes) {
  const CodeForm form(attributes);
  const size_t parts = parts_of_group(form), count = (in.size() - 2) / parts;
  const Tensor &x = in[0], &groups = in.back();
  const Shape shape{groups.dim(0), groups.dim(1), form.rows};
  Tensor result = zeros(shape, x.dtype());
  for (size_t i = 0; i < count; ++i) {
    std::vector<Tensor> inputs{x};
    inputs.insert(inputs.end(), in.begin() + static_cast<std::ptrdiff_t>(1 + i * parts),
                  in.begin() + static_cast<std::ptrdiff_t>(1 + (i + 1) * parts));
    const Tensor y = make_tensor(find_operation("quantized_matmul"), std::move(inputs), attributes);
    const Tensor is = equal(groups, full(groups.shape(), static_cast<double>(i), DType::kInt64));
    result =
        select(broadcast_to(unsqueeze(is, 2), shape), x.rank() == 3 ? y : broadcast_to(unsqueeze(y, 1), shape), result);
  }
  return {result};
}

std::vector<Sample> samples_of_grouped_codes() {
  std::vector<Sample> samples;
  for (const Sample& one : samples_of_codes(false)) {
    const CodeForm form(one.attributes);
    const bool apart = one.inputs[0].shape.size() == 3;  // [2, 3, K]: a row for each group
    Sample sample{{one.inputs[0]}, one.attributes, one.low, one.high, 16};
    sample.attributes.set("bias", int64_t{0});
    for (int i = 0; i < 9; ++i)
      sample.inputs.insert(sample.inputs.end(), one.inputs.begin() + 1,
                           one.inputs.begin() + static_cast<std::ptrdiff_t>(form.inputs() - form.bias));
    sample.inputs.push_back({DType::kInt64, {one.inputs[0].shape[0], apart ? 3 : 2}});
    samples.push_back(std::move(sample));
  }
  return samples;
}

const Operation kGroupedQuantizedMatmul = {
    .name = "grouped_quantized_matmul",
    .kind = OperationKind::kComposite,
    .documentation =
        "x [N, K] or [N, k, K], the parts of several matrices of one form as of quantized_matmul, groups i64 [N, k]: "
        "[N, k, rows], each row times the matrix of its group; rows of groups without one become zero.",
    .category = Category::kProducts,
    .flops =
        [](const CostRequest& cost) {
          return 2 * static_cast<double>(elements(cost.outputs[0].shape)) *
                 static_cast<double>(cost.inputs[0].shape.back());
        },
    .infer = infer_grouped_codes,
    .decompose = [](std::span<const Tensor> in,
                    const Attributes& attributes) { return decompose_grouped_codes(in, attributes); },
    .gradient = [](const GradientRequest&) -> std::vector<Tensor> { return {}; },  // by the decomposition
    .samples = samples_of_grouped_codes};

}  // namespace

const RegisterOperations kRegisteredQuantizedMatmul{&kQuantizedMatmul, &kQuantizedMatmulGradient,
                                                    &kGroupedQuantizedMatmul};

bool are_of_one_form(const PackedMatrix& a, const PackedMatrix& b) {
  const auto same = [](const Tensor& x, const Tensor& y) {
    return x.defined() == y.defined() && (!x.defined() || x.type() == y.type());
  };
  return !a.integers && !b.integers && !a.order.defined() && !b.order.defined() && a.bits == b.bits &&
         a.rows == b.rows && a.depth == b.depth && a.group == b.group && a.activations == b.activations &&
         a.activations != kFloat8 && same(a.bytes, b.bytes) && same(a.scales, b.scales) && same(a.minima, b.minima) &&
         same(a.values, b.values);
}

Tensor grouped_quantized_matmul(const Tensor& x, const Tensor& groups, std::span<const PackedMatrix* const> weights,
                                const Computing& computing) {
  const PackedMatrix& first = *weights.front();
  std::vector<Tensor> inputs{autocast_low(x, computing)};
  for (const PackedMatrix* weight : weights) {
    inputs.push_back(weight->bytes), inputs.push_back(weight->scales);
    if (weight->minima.defined()) inputs.push_back(weight->minima);
    if (weight->values.defined()) inputs.push_back(weight->values);
  }
  inputs.push_back(groups);
  return make_tensor(kGroupedQuantizedMatmul, std::move(inputs),
                     {{"bits", first.bits},
                      {"rows", first.rows},
                      {"depth", first.depth},
                      {"group", first.group},
                      {"minima", static_cast<int64_t>(first.minima.defined())},
                      {"values", static_cast<int64_t>(first.values.defined())},
                      {"bias", int64_t{0}},
                      {"activations", first.activations}});
}

Tensor dequantised(const PackedMatrix& matrix) {
  if (matrix.integers) return dequantised(*matrix.integers);
  const Tensor columns =
      slice(numbers_of(matrix.bytes, matrix.scales, matrix.minima, matrix.values, matrix, DType::kFloat32), 0, 0,
            matrix.rows);
  if (!matrix.order.defined()) return columns;
  const std::vector<int64_t> order = matrix.order.to_vector<int64_t>();
  std::vector<int64_t> place(order.size());
  for (size_t i = 0; i < order.size(); ++i) place[static_cast<size_t>(order[i])] = static_cast<int64_t>(i);
  return gather(columns, Tensor::from(place, {matrix.depth}), 1);
}

Tensor dequantised_rows(const PackedMatrix& matrix, const Tensor& ids) {
  if (matrix.order.defined() || matrix.integers) return gather(dequantised(matrix), ids, 0);
  const int64_t count = ids.size(), parts = matrix.bytes.dim(1) * matrix.bytes.dim(2);
  const Tensor flat = cast(reshape(ids, {count}), DType::kInt64);
  const Tensor block = cast(floor(cast(flat, DType::kFloat64) * (1.0 / kRows)), DType::kInt64),
               row = flat - block * static_cast<double>(kRows);
  // Of x [blocks, n, 16, ...] the row of each id: [count, n, ...]. What is cut out of the table are the blocks of the
  // rows, so that nothing else of it is read.
  const Tensor in_own_block = iota({count}, 0);
  const auto of_rows = [&](const Tensor& x, int64_t n, const Shape& last) {
    const Tensor own = gather(x, block, 0);  // [count, ..., 16, ...]
    const Tensor first = reshape(in_own_block * static_cast<double>(n * kRows) + row, {count, 1});
    const Tensor places = broadcast_to(first, {count, n}) + iota({count, n}, 1) * static_cast<double>(kRows);
    Shape lines{count * n * kRows};
    lines.insert(lines.end(), last.begin(), last.end());
    return gather(reshape(own, lines), places, 0);
  };
  const auto scales_of = [&](const Tensor& x) {
    return x.defined() ? reshape(of_rows(x, x.dim(1), {}), {count, x.dim(1), 1}) : Tensor();
  };
  const Tensor bytes =
      reshape(of_rows(matrix.bytes, parts, {4}), {count, matrix.bytes.dim(1), matrix.bytes.dim(2), 1, 4});
  Shape shape = ids.shape();
  shape.push_back(matrix.depth);
  return reshape(
      numbers_of(bytes, scales_of(matrix.scales), scales_of(matrix.minima), matrix.values, matrix, DType::kFloat32),
      shape);
}

Tensor quantized_matmul(const Tensor& x, const PackedMatrix& weight, const Tensor& bias, const Computing& computing) {
  if (weight.integers) return quantized_linear(x, *weight.integers, bias);
  Tensor low = autocast_low(x, computing);
  if (weight.order.defined()) low = gather(low, weight.order, low.rank() - 1);
  std::vector<Tensor> inputs{low, weight.bytes, weight.scales};
  const bool table = weight.values.defined() && weight.activations != kFloat8;  // which knows it
  if (weight.minima.defined()) inputs.push_back(weight.minima);
  if (table) inputs.push_back(weight.values);
  if (bias.defined()) inputs.push_back(cast(bias, low.dtype()));
  return make_tensor(kQuantizedMatmul, std::move(inputs),
                     {{"bits", weight.bits},
                      {"rows", weight.rows},
                      {"depth", weight.depth},
                      {"group", weight.group},
                      {"minima", static_cast<int64_t>(weight.minima.defined())},
                      {"values", static_cast<int64_t>(table)},
                      {"bias", static_cast<int64_t>(bias.defined())},
                      {"activations", weight.activations}});
}

}  // namespace transom
