// SPDX-License-Identifier: Apache-2.0
#include "models/nn/weight.h"

#include "graph/ops/elementwise/quantization.h"
#include "graph/ops/products/integer_products.h"
#include "graph/ops/products/packed_matrix.h"
#include "models/nn/linear_observer.h"
#include "models/nn/weight_adapter.h"
#include "transom/ops.h"

namespace transom {
namespace {

bool is_transposed(const Parameter& weight) { return weight.use == Parameter::Use::kTransposedLinear; }

Tensor product_of(const Tensor& x, const Parameter& weight, const Tensor& bias, const Computing& computing) {
  if (weight.packed) return quantized_matmul(x, *weight.packed, bias, computing);
  if (computing.int8) return quantized_linear(x, weight.value, bias, computing, is_transposed(weight));
  if (!is_transposed(weight)) return linear(x, weight.value, bias, computing);
  const Tensor product = dot_general(x, weight.value, {{}, {}, {x.rank() - 1}, {0}}, computing);
  return bias.defined() ? product + cast(bias, product.dtype()) : product;
}

}  // namespace

Tensor linear(const Tensor& x, const Parameter& weight, const Tensor& bias, ForwardContext& context) {
  if (LinearObserver* observer = context.computing.observer) observer->before(x, weight, context.computing);
  const WeightAdapter* adapter = adapter_of(weight, context.computing);
  return adapter ? adapter->product(x, weight, bias, context) : product_of(x, weight, bias, context.computing);
}

Tensor product_without_adapter(const Tensor& x, const Parameter& weight, const Tensor& bias,
                               const Computing& computing) {
  return product_of(x, weight, bias, computing);
}

Tensor convolution(const Tensor& x, const Parameter& weight, const ConvolutionOptions& options,
                   const Computing& computing) {
  if (LinearObserver* observer = computing.observer) observer->before_convolution(x, weight, options, computing);
  if (weight.packed && weight.packed->integers) return quantized_convolution(x, *weight.packed->integers, options);
  const bool images = x.rank() == 4 && is_floating(x.dtype());
  if (images && computing.int8 && quantizes_convolution(weight.value))
    return quantized_convolution(x, weight.value, options);
  return convolution(x, weight.value, options, computing);
}

Tensor codes_of(const Tensor& x, const Parameter& weight) {
  if (!weight.packed || !weight.packed->integers || !is_floating(x.dtype())) return {};
  return static_codes(x, *weight.packed->integers);
}

Tensor numbers_of_codes(const Tensor& codes, const Parameter& weight) {
  return static_numbers(codes, *weight.packed->integers);
}

bool reads_as_codes(const Parameter& one, const Parameter& other) {
  if (!one.packed || !one.packed->integers || !other.packed || !other.packed->integers) return false;
  const IntegerWeight &a = *one.packed->integers, &b = *other.packed->integers;
  return a.input_scale.node() == b.input_scale.node() && a.zero_point == b.zero_point && a.input_type == b.input_type;
}

Tensor rows_of(const Parameter& table, const Tensor& ids, const Computing& computing) {
  const Tensor rows =
      table.packed ? cast(dequantised_rows(*table.packed, ids), computing.dtype) : gather(table.value, ids, 0);
  const WeightAdapter* adapter = adapter_of(table, computing);
  return adapter ? adapter->rows(rows, ids, computing) : rows;
}

Tensor unpacked(const Parameter& weight, DType dtype) {
  if (!weight.packed) return weight.value;
  const Tensor rows = cast(dequantised(*weight.packed), dtype);
  return is_transposed(weight) ? permute(rows, {1, 0}) : rows;
}

}  // namespace transom
