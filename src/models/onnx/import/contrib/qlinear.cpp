// SPDX-License-Identifier: Apache-2.0
// Operators over codes: each code becomes its number, the operator is computed in f32, and the result becomes a code.
#include "models/onnx/import/contrib/contrib.h"
#include "models/onnx/import/elementwise/element_values.h"
#include "models/onnx/import/elementwise/quantization.h"
#include "models/onnx/import/run/precision.h"

namespace transom::onnx {
namespace {

constexpr DType kFloat = DType::kFloat32;

Tensor only_one(const Call& call, size_t input) {
  call.require(call.tensor(input).size() == 1, "expected one scale and one zero point of a tensor");
  return reshape(call.tensor(input), {});
}

// The numbers of the codes at `input`, whose scale and zero point follow it.
Tensor numbers_at(const Call& call, size_t input) {
  const ElementType type = call.type(input);
  if (type != ElementType::kUInt8 && type != ElementType::kInt8) call.not_supported("codes that are no bytes");
  Tensor codes = cast(call.tensor(input), DType::kInt32);
  if (call.has(input + 2)) codes = sub(codes, cast(only_one(call, input + 2), DType::kInt32));
  return mul(cast(codes, kFloat), cast(only_one(call, input + 1), kFloat));
}

// Codes of the type of the first input, by the scale at `scale` and the zero point behind it.
Value codes_by(const Call& call, const Tensor& x, size_t scale, size_t type_of) {
  const Tensor zero = call.has(scale + 1) ? only_one(call, scale + 1) : Tensor();
  return quantised(div(x, cast(only_one(call, scale), kFloat)), zero, call.type(type_of));
}

Results qlinear_add(Call& call) {
  only_attributes(call, {});
  return {codes_by(call, add(numbers_at(call, 0), numbers_at(call, 3)), 6, 0)};
}
Results qlinear_mul(Call& call) {
  only_attributes(call, {});
  return {codes_by(call, mul(numbers_at(call, 0), numbers_at(call, 3)), 6, 0)};
}
Results qlinear_sigmoid(Call& call) {
  only_attributes(call, {});
  return {codes_by(call, sigmoid(numbers_at(call, 0)), 3, 0)};
}

// A standard operator on the numbers of input 0.
Results by_standard(Call& call, std::string_view name, int64_t version, bool channels_last) {
  Tensor x = numbers_at(call, 0);
  std::vector<int64_t> to_first, to_last;
  if (channels_last) {
    call.require(x.rank() >= 3, "expected [N, spatial..., C]");
    to_first = {0, x.rank() - 1}, to_last = {0};
    for (int64_t i = 1; i + 1 < x.rank(); ++i) to_first.push_back(i);
    for (int64_t i = 2; i < x.rank(); ++i) to_last.push_back(i);
    to_last.push_back(1);
    x = permute(x, to_first);
  }
  Tensor y = standard(call, name, version, {{ElementType::kFloat32, x}})[0].tensor;
  if (channels_last) y = permute(y, to_last);
  return {codes_by(call, y, 3, 0)};
}

Results qlinear_leaky_relu(Call& call) {
  only_attributes(call, {"alpha"});
  return by_standard(call, "LeakyRelu", 16, false);
}
Results qlinear_average_pool(Call& call) {
  only_attributes(call,
                  {"auto_pad", "ceil_mode", "channels_last", "count_include_pad", "kernel_shape", "pads", "strides"});
  return by_standard(call, "AveragePool", 11, call.integer("channels_last", 0) != 0);
}
Results qlinear_global_average_pool(Call& call) {
  only_attributes(call, {"channels_last"});
  return by_standard(call, "GlobalAveragePool", 1, call.integer("channels_last", 0) != 0);
}
Results qlinear_softmax(Call& call) {
  only_attributes(call, {"axis", "opset"});
  return by_standard(call, "Softmax", call.integer("opset"), false);
}

// Pairs of codes with scale and zero point behind the scale and zero point of the result.
Results qlinear_concat(Call& call) {
  only_attributes(call, {"axis"});
  call.require(call.inputs() >= 5 && (call.inputs() - 2) % 3 == 0, "expected three inputs for each tensor");
  std::vector<Tensor> parts;
  for (size_t input = 2; input < call.inputs(); input += 3) {
    parts.push_back(numbers_at(call, input));
    call.require(parts.back().rank() == parts[0].rank() && call.type(input) == call.type(2),
                 "its tensors differ in rank or type");
  }
  const int64_t axis = call.axis(call.integer("axis"), parts[0].rank());
  return {codes_by(call, concatenate(parts, axis), 0, 2)};
}

Results qlinear_where(Call& call) {
  only_attributes(call, {});
  return {codes_by(call, select(call.tensor(0), numbers_at(call, 1), numbers_at(call, 4)), 7, 1)};
}

// A product of codes with a sum of i32 codes; numbers, or codes where there is a scale of the result.
Results q_gemm(Call& call) {
  only_attributes(call, {"alpha", "transA", "transB"});
  const auto matrix = [&](size_t input, std::string_view turns) {
    Tensor codes = cast(call.tensor(input), DType::kInt32);
    call.require(codes.rank() == 2, "expected matrices");
    const bool turned = call.integer(turns, 0) != 0;
    if (turned) codes = transpose(codes, 0, 1);
    if (!call.has(input + 2)) return codes;
    const Tensor zero = cast(call.tensor(input + 2), DType::kInt32);
    call.require(zero.size() == 1 || zero.shape() == Shape{codes.dim(1)}, "the zero points do not fit");
    return sub(codes, zero.size() == 1 ? reshape(zero, {}) : zero);
  };
  const Tensor a = matrix(0, "transA"), b = matrix(3, "transB");
  Tensor product = matmul(a, b, call.computing());
  if (call.has(6)) product = add(product, call.tensor(6));
  const Tensor& b_scale = call.tensor(4);
  call.require(b_scale.size() == 1 || b_scale.shape() == Shape{b.dim(1)}, "the scales do not fit");
  const Tensor scale = mul(only_one(call, 1), b_scale.size() == 1 ? reshape(b_scale, {}) : b_scale);
  const Tensor y = mul(cast(product, kFloat), scale * call.number("alpha", 1));
  if (!call.has(7)) return {{ElementType::kFloat32, y}};
  return {codes_by(call, y, 7, 0)};
}

}  // namespace

const RegisterOperators kQLinear = {contrib("QLinearAdd", qlinear_add),
                                    contrib("QLinearMul", qlinear_mul),
                                    contrib("QLinearSigmoid", qlinear_sigmoid),
                                    contrib("QLinearLeakyRelu", qlinear_leaky_relu),
                                    contrib("QLinearAveragePool", qlinear_average_pool),
                                    contrib("QLinearGlobalAveragePool", qlinear_global_average_pool),
                                    contrib("QLinearSoftmax", qlinear_softmax),
                                    contrib("QLinearConcat", qlinear_concat),
                                    contrib("QLinearWhere", qlinear_where),
                                    contrib("QGemm", q_gemm)};

}  // namespace transom::onnx
