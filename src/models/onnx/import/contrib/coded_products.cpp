// SPDX-License-Identifier: Apache-2.0
// Products with weights of codes, and products that are written together with what stands around them.
#include <algorithm>
#include <array>

#include "base/error.h"
#include "graph/ops/products/packed_matrix.h"
#include "models/onnx/import/contrib/contrib.h"
#include "models/onnx/import/elementwise/activations.h"
#include "models/onnx/import/elementwise/element_values.h"
#include "models/onnx/import/elementwise/quantization.h"
#include "models/onnx/import/run/precision.h"

namespace transom::onnx {
namespace {

// ---- FusedMatMul

// The first axis of the batch becomes a row: [d0, d1 .., K] as [d1 .., d0, K].
Tensor batch_turned(const Call& call, const Tensor& x) {
  call.require(x.rank() >= 3, "transBatch needs a tensor of rank 3 or more");
  std::vector<int64_t> order;
  for (int64_t i = 1; i + 1 < x.rank(); ++i) order.push_back(i);
  order.push_back(0), order.push_back(x.rank() - 1);
  return permute(x, order);
}

Results fused_matmul(Call& call) {
  only_attributes(call, {"alpha", "transA", "transB", "transBatchA", "transBatchB"});
  const auto operand = [&](size_t input, std::string_view turns, std::string_view turns_batch) {
    Tensor x = call.tensor(input);
    call.require(x.rank() >= 1, "expected tensors of rank 1 or more");
    if (call.integer(turns_batch, 0) != 0) x = batch_turned(call, x);
    return call.integer(turns, 0) != 0 && x.rank() > 1 ? transpose(x, -1, -2) : x;
  };
  const std::array<Tensor, 2> operands{operand(0, "transA", "transBatchA"), operand(1, "transB", "transBatchB")};
  const double alpha = call.number("alpha", 1);
  const Value product = standard(call, "MatMul", 13, {{call.type(0), operands[0]}, {call.type(1), operands[1]}})[0];
  return {alpha == 1 ? product : Value(product.type, product.tensor * alpha)};
}

// ---- MatMulNBits

// The matrix [N, K] of codes in `block`s along K.
struct Blocks {
  int64_t bits, K, N, block, count;  // count: of blocks in a row
  Tensor codes;                      // f32 [N, count * block], 0 to 2^bits - 1
  Tensor scales;                     // f32 [N, count]
  Tensor zero_points;                // f32 [N, count]
  bool middle = false;               // all zero points are 2^(bits - 1)
};

// Codes of 2, 4 or 8 bits out of bytes [.., n], the low ones first: f32 [.., n * 8 / bits].
Tensor codes_out_of(const Tensor& bytes, int64_t bits) {
  const int64_t parts = 8 / bits, last = bytes.rank();
  const double base = static_cast<double>(int64_t{1} << bits);
  Tensor left = cast(bytes, DType::kFloat32);
  std::vector<Tensor> codes;
  for (int64_t part = 0; part < parts; ++part) {
    const Tensor higher = floor(left / base);
    codes.push_back(unsqueeze(sub(left, higher * base), last));
    left = higher;
  }
  Shape shape = bytes.shape();
  shape.back() *= parts;
  return reshape(concatenate(codes, last), shape);
}

Blocks blocks_of(const Call& call) {
  Blocks b;
  b.bits = call.integer("bits", 4), b.K = call.integer("K"), b.N = call.integer("N");
  b.block = call.integer("block_size");
  if (b.bits != 2 && b.bits != 4 && b.bits != 8) call.not_supported(fmt::format("codes of {} bits", b.bits));
  constexpr int64_t kMost = int64_t{1} << 31;
  call.require(b.K > 0 && b.N > 0 && b.K < kMost && b.N < kMost, "K and N are impossible");
  call.require(b.block >= 16 && b.block <= 1 << 20 && (b.block & (b.block - 1)) == 0,
               "block_size must be a power of two of at least 16");
  b.count = (b.K + b.block - 1) / b.block;
  const Tensor& bytes = call.tensor(1);
  call.require(call.type(1) == ElementType::kUInt8 && bytes.size() == b.N * b.count * (b.block * b.bits / 8),
               "B must be bytes [N, blocks, block_size * bits / 8]");
  b.codes = codes_out_of(reshape(bytes, {b.N, b.count * b.block * b.bits / 8}), b.bits);
  call.require(call.tensor(2).size() == b.N * b.count, "scales must be [N, blocks]");
  b.scales = cast(reshape(call.tensor(2), {b.N, b.count}), DType::kFloat32);
  b.middle = !call.has(3);
  if (b.middle) {
    b.zero_points = full({b.N, b.count}, static_cast<double>(int64_t{1} << (b.bits - 1)));
  } else if (call.type(3) == ElementType::kUInt8) {
    const int64_t width = (b.count * b.bits + 7) / 8;
    call.require(call.tensor(3).size() == b.N * width, "zero_points must be bytes [N, ceil(blocks * bits / 8)]");
    b.zero_points = slice(codes_out_of(reshape(call.tensor(3), {b.N, width}), b.bits), 1, 0, b.count);
  } else {
    call.require(is_floating(call.type(3)) && call.tensor(3).size() == b.N * b.count,
                 "zero_points must be [N, blocks]");
    b.zero_points = cast(reshape(call.tensor(3), {b.N, b.count}), DType::kFloat32);
  }
  return b;
}

int64_t up_to(int64_t count, int64_t size) { return (count + size - 1) / size * size; }

// As products of the library read them: 16 rows by 32 columns lie together.
PackedMatrix packed(const Blocks& b) {
  const int64_t rows = up_to(b.N, 16), columns = up_to(b.K, 32);
  const auto grown = [](const Tensor& x, int64_t height, int64_t width) {
    const Tensor cut = slice(x, 1, 0, std::min(x.dim(1), width));
    return pad(cut, {0, 0}, {height - cut.dim(0), width - cut.dim(1)});
  };
  const Tensor codes = reshape(grown(b.codes, rows, columns), {rows / 16, 16, columns / 32, 8, 4});
  Tensor bytes = permute(codes, {0, 2, 3, 1, 4});  // [.., .., 8, 16, 4]
  if (b.bits <= 4) bytes = add(slice(bytes, 2, 0, 4), slice(bytes, 2, 4, 8) * 16.0);
  const auto by_row = [&](const Tensor& x) {
    return permute(reshape(grown(x, rows, b.count), {rows / 16, 16, b.count}), {0, 2, 1});
  };
  PackedMatrix matrix{.bits = b.bits <= 4 ? 4 : 8, .rows = b.N, .depth = b.K, .group = b.block};
  matrix.bytes = cast(cast(bytes, DType::kInt32), DType::kUInt8);
  matrix.scales = by_row(b.scales);
  if (!b.middle || b.bits == 2) matrix.minima = by_row(neg(mul(b.scales, b.zero_points)));
  return matrix;
}

Results matmul_n_bits(Call& call) {
  only_attributes(call, {"K", "N", "bits", "block_size", "accuracy_level", "weight_prepacked"});
  only_value(call, "weight_prepacked", 0);
  const Tensor& x = call.tensor(0);
  const Blocks b = blocks_of(call);
  call.require(x.rank() >= 1 && x.dim(-1) == b.K, "A does not have K columns");
  Tensor bias;
  if (call.has(5)) {
    call.require(call.shape(5) == Shape{b.N}, "the bias does not have N numbers");
    bias = cast(call.tensor(5), wide_type(x.dtype()));
  }
  Tensor y;
  if (call.has(4)) {  // columns in another order of groups
    const std::vector<int64_t> groups = call.integers(4);
    call.require(static_cast<int64_t>(groups.size()) == b.K || static_cast<int64_t>(groups.size()) == b.count * b.block,
                 "g_idx must name a group for each of K columns");
    for (const int64_t group : groups) call.require(group >= 0 && group < b.count, "g_idx names a group that is not");
    const Tensor order = slice(reshape(call.tensor(4), {-1}), 0, 0, b.K);
    const auto spread = [&](const Tensor& values) { return gather(values, cast(order, DType::kInt64), 1); };
    const Tensor weight = mul(sub(slice(b.codes, 1, 0, b.K), spread(b.zero_points)), spread(b.scales));
    y = linear(wide(x), cast(weight, wide_type(x.dtype())), bias, call.computing());
  } else {
    y = quantized_matmul(wide(x), packed(b), bias, call.computing());
  }
  return {call.like(0, cast(y, x.dtype()))};
}

// ---- products of bytes whose result is a floating number

// One number, or one for each column of a matrix [.., K, N].
Tensor by_column(const Call& call, size_t input, const Tensor& matrix) {
  const Tensor& values = call.tensor(input);
  if (values.size() == 1) return reshape(values, {});
  call.require(matrix.rank() >= 2, "the scales do not fit B");
  if (values.rank() == 1) {
    call.require(values.dim(0) == matrix.dim(-1), "the scales do not fit B");
    return values;
  }
  call.require(values.rank() == matrix.rank() && values.dim(-2) == 1 && values.dim(-1) == matrix.dim(-1),
               "the scales do not fit B");
  return values;
}

Tensor without_zero_point(const Call& call, size_t input, size_t zero_point) {
  const Tensor codes = cast(call.tensor(input), DType::kInt32);
  if (!call.has(zero_point)) return codes;
  return sub(codes, cast(by_column(call, zero_point, codes), DType::kInt32));
}

Tensor floating_product(const Call& call, const Tensor& a, const Tensor& b, const Tensor& a_scale, size_t b_scale,
                        size_t bias) {
  const Tensor product = cast(matmul(a, b, call.computing()), DType::kFloat32);
  const Tensor y = mul(product, mul(a_scale, by_column(call, b_scale, b)));
  if (!call.has(bias)) return y;
  call.require(call.shape(bias) == Shape{b.dim(-1)}, "the bias does not fit B");
  return add(y, call.tensor(bias));
}

Results dynamic_quantize_matmul(Call& call) {
  only_attributes(call, {});
  const DynamicCodes a = dynamic_codes(call.tensor(0));
  const Tensor centred = sub(cast(a.codes, DType::kInt32), cast(a.zero_point, DType::kInt32));
  return {call.like(0, floating_product(call, centred, without_zero_point(call, 1, 3), a.scale, 2, 4))};
}

Results matmul_integer_to_float(Call& call) {
  only_attributes(call, {});
  if (call.tensor(2).size() != 1) call.not_supported("a scale for each row of A");
  call.require(!call.has(4) || call.tensor(4).size() == 1, "A must have one zero point");
  const Tensor y = floating_product(call, without_zero_point(call, 0, 4), without_zero_point(call, 1, 5),
                                    reshape(call.tensor(2), {}), 3, 6);
  return {{call.type(2), y}};
}

// ---- an activation behind a product

Results activated(Call& call, Results results) {
  const std::string name = call.text("activation", "");
  const std::vector<double> given = call.numbers("activation_params");
  const auto parameter = [&](size_t i, double otherwise) { return i < given.size() ? given[i] : otherwise; };
  const Tensor& x = results[0].tensor;
  Tensor y = x;
  if (name == "Clip") {
    call.require(given.size() == 2, "activation_params of Clip must be two numbers");
    y = minimum(maximum(x, constant(given[0], x.dtype())), constant(given[1], x.dtype()));
  } else if (!name.empty()) {
    const bool hard = name == "HardSigmoid";
    y = in_wide(x, [&](const Tensor& wide) {
      return activation_of(call, name, wide, parameter(0, hard ? 0.2 : 0.01), parameter(1, hard ? 0.5 : 0));
    });
  }
  results[0].tensor = y;
  return results;
}

// Conv, with a sum behind it and an activation behind that.
Results fused_conv(Call& call) {
  only_attributes(
      call, {"activation", "activation_params", "auto_pad", "dilations", "group", "kernel_shape", "pads", "strides"});
  std::vector<Value> inputs{call.value(0), call.value(1)};
  if (call.has(2)) inputs.push_back(call.value(2));
  Results results = standard(call, "Conv", 11, std::move(inputs));
  if (call.has(3)) {
    call.require(call.shape(3) == results[0].tensor.shape(), "what is added does not fit the convolution");
    results[0].tensor = add(results[0].tensor, call.tensor(3));
  }
  return activated(call, std::move(results));
}

Results fused_gemm(Call& call) {
  only_attributes(call, {"activation", "activation_alpha", "activation_beta", "activation_gamma", "alpha", "beta",
                         "transA", "transB"});
  if (call.attribute("activation_gamma")) call.not_supported("activation_gamma");
  std::vector<Value> inputs{call.value(0), call.value(1)};
  if (call.has(2)) inputs.push_back(call.value(2));
  Results results = standard(call, "Gemm", 13, std::move(inputs));
  const std::string name = call.text("activation", "");
  if (name.empty()) return results;
  const double alpha = call.number("activation_alpha", name == "HardSigmoid" ? 0.2 : 0.01),
               beta = call.number("activation_beta", name == "HardSigmoid" ? 0.5 : 0);
  results[0].tensor =
      in_wide(results[0].tensor, [&](const Tensor& x) { return activation_of(call, name, x, alpha, beta); });
  return results;
}

}  // namespace

const RegisterOperators kContribProducts = {contrib("FusedMatMul", fused_matmul),
                                            contrib("FusedConv", fused_conv),
                                            contrib("FusedGemm", fused_gemm),
                                            contrib("MatMulNBits", matmul_n_bits),
                                            contrib("DynamicQuantizeMatMul", dynamic_quantize_matmul),
                                            contrib("MatMulIntegerToFloat", matmul_integer_to_float)};

}  // namespace transom::onnx
