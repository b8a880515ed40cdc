// SPDX-License-Identifier: Apache-2.0
// Matrix products: MatMul, Gemm, Einsum, Det.
#include "graph/ir/node.h"
#include "graph/ops/records.h"
#include "models/onnx/import/elementwise/element_values.h"
#include "models/onnx/import/run/operators.h"
#include "models/onnx/import/run/precision.h"

namespace transom::onnx {
namespace {

// W, where a matrix is W transposed: the product reads W as it lies, and no copy is made at each run. Heads that share
// the table of the embeddings are written so.
const Tensor* source_of_transposed(const Tensor& y) {
  const transom::Node& node = *y.node();
  if (y.rank() != 2 || node.operation != &op::permute || node.inputs.empty()) return nullptr;
  return node.attributes.get_ints("permutation") == std::vector<int64_t>{1, 0} ? &node.inputs[0] : nullptr;
}

Results matmul_operator(Call& call) {
  const Tensor &x = call.tensor(0), &y = call.tensor(1);
  call.require(x.rank() >= 1 && y.rank() >= 1, "expected tensors of rank 1 or more");
  if (const Tensor* source = source_of_transposed(y); source && x.rank() >= 2)
    return {call.like(0, dot_general(x, *source, {{}, {}, {x.rank() - 1}, {1}}, call.computing()))};
  // One matrix for all rows, as weights are: a product without batches, not one for each batch.
  if (x.rank() > 2 && y.rank() == 2)
    return {call.like(0, dot_general(x, y, {{}, {}, {x.rank() - 1}, {0}}, call.computing()))};
  Tensor product = matmul(x.rank() == 1 ? unsqueeze(x, 0) : x, y.rank() == 1 ? unsqueeze(y, 1) : y, call.computing());
  if (y.rank() == 1) product = squeeze(product, -1);
  if (x.rank() == 1) product = squeeze(product, y.rank() == 1 ? -1 : -2);
  return {call.like(0, product)};
}

Results gemm(Call& call) {
  Tensor a = call.tensor(0), b = call.tensor(1);
  call.require(a.rank() == 2 && b.rank() == 2, "expected matrices");
  const bool turned = call.integer("transB", 0) != 0;
  if (call.integer("transA", 0) != 0) a = transpose(a, 0, 1);
  const double alpha = call.number("alpha", 1), beta = call.number("beta", 1);
  const bool floats = is_floating(call.type(0));
  if (floats && alpha == 1 && beta == 1 && turned && call.has(2) && call.shape(2) == Shape{b.dim(0)})
    return {call.like(0, linear(a, b, call.tensor(2), call.computing()))};
  Tensor product = turned ? dot_general(a, b, {{}, {}, {1}, {1}}, call.computing()) : matmul(a, b, call.computing());
  if (alpha != 1) product = floats ? product * alpha : cast(cast(product, DType::kFloat64) * alpha, product.dtype());
  if (!call.has(2) || beta == 0) return {call.like(0, product)};
  Tensor c = call.tensor(2);
  if (beta != 1) c = floats ? c * beta : cast(cast(c, DType::kFloat64) * beta, c.dtype());
  return {call.like(0, add(product, c))};
}

Results einsum_operator(Call& call) {
  call.require(call.inputs() > 0, "it has no inputs");
  std::vector<Tensor> terms;
  for (size_t i = 0; i < call.inputs(); ++i) terms.push_back(wide(call.tensor(i)));
  return {call.like(0, cast(einsum(call.text("equation", ""), terms, call.computing()), call.tensor(0).dtype()))};
}

// By elimination with the largest pivot of each column.
Results determinant(Call& call) {
  Tensor x = wide(call.tensor(0));
  const int64_t n = x.rank() >= 2 ? x.dim(-1) : 0;
  call.require(n > 0 && x.dim(-2) == n, "expected square matrices");
  if (n > 64) call.not_supported("matrices of more than 64 rows");
  const Shape batch(x.shape().begin(), x.shape().end() - 2);
  const int64_t B = elements(batch);
  x = reshape(x, {B, n, n});
  Tensor result = broadcast_to(constant(1, x.dtype()), {B});
  for (int64_t k = 0; k < n; ++k) {
    const int64_t left = n - k;
    // The pivot's row changes places with the first one; a swap turns the sign.
    const Tensor place = arg_max(abs(squeeze(slice(x, 2, 0, 1), 2)), 1);  // [B]
    const Tensor row = iota({B, left}, 1), pivot = reshape(place, {B, 1});
    const Tensor from = select(equal(row, integer(0)), pivot, select(equal(row, pivot), integer(0), row));
    x = take_along_axis(x, broadcast_to(reshape(from, {B, left, 1}), {B, left, left}), 1);
    const Tensor head = reshape(slice(slice(x, 1, 0, 1), 2, 0, 1), {B});
    result = mul(result, select(equal(place, integer(0)), head, neg(head)));
    if (left == 1) break;
    const Tensor zero = constant(0, x.dtype());
    const Tensor divisor = reshape(select(equal(head, zero), constant(1, x.dtype()), head), {B, 1, 1});
    const Tensor factors = div(slice(slice(x, 1, 1, left), 2, 0, 1), divisor);
    x = sub(slice(slice(x, 1, 1, left), 2, 1, left), mul(factors, slice(slice(x, 1, 0, 1), 2, 1, left)));
  }
  return {call.like(0, cast(reshape(result, batch), call.tensor(0).dtype()))};
}

}  // namespace

const RegisterOperators kProducts = {
    {"MatMul", matmul_operator}, {"Gemm", gemm}, {"Einsum", einsum_operator, 12}, {"Det", determinant, 11}};

}  // namespace transom::onnx
