// SPDX-License-Identifier: Apache-2.0
#include "models/loading/weights/packed_weights.h"

#include <algorithm>
#include <cmath>

#include "base/numbers/float8.h"
#include "files/blocks/rounded_matrix.h"
#include "graph/ir/node.h"
#include "graph/ops/products/integer_products.h"
#include "models/loading/weights/packed_panels.h"
#include "runtime/device/device.h"

namespace transom {
namespace {

Tensor frozen_floats(const std::vector<float>& values) {
  const auto held = std::make_shared<const std::vector<float>>(values);
  return Tensor::from_frozen(std::as_bytes(std::span(*held)), {DType::kFloat32, {static_cast<int64_t>(values.size())}},
                             held);
}

}  // namespace

std::optional<PackedMatrix> packed_matrix(const BlockMatrix& matrix) {
  return packed_matrix(std::shared_ptr<const BlockMatrix>(std::shared_ptr<const void>(), &matrix), false);
}

std::optional<PackedMatrix> packed_matrix(std::shared_ptr<const BlockMatrix> matrix, bool deferred) {
  const BlockLayout l = matrix->layout();
  if (l.rows <= 0 || l.depth <= 0) return std::nullopt;
  const int64_t group = l.group >= l.depth ? (l.depth + 31) / 32 * 32 : l.group;
  if (group != 16 && group % 32 != 0) return std::nullopt;
  deferred = deferred && matrix->has_quick_rows();
  const auto panels = std::make_shared<PackedPanels>(std::move(matrix), group);
  if (!deferred) panels->finish();
  const auto tensor = [&](std::span<const std::byte> bytes, Type type, DeferredMemory::Part part) {
    if (!deferred) return Tensor::from_frozen(bytes, std::move(type), panels);
    return make_input(std::move(type), default_device()->import(bytes, panels, part));
  };
  PackedMatrix result{.bits = l.bits, .rows = l.rows, .depth = l.depth, .group = group};
  result.bytes =
      tensor(panels->codes(), {DType::kUInt8, {panels->panels(), panels->blocks(), l.bits == 8 ? 8 : 4, 16, 4}},
             DeferredMemory::kCodes);
  const Type scales{l.scale_type == DType::kFloat16 ? DType::kFloat16 : DType::kFloat32,
                    {panels->panels(), panels->groups(), 16}};
  result.scales = tensor(panels->scales(), scales, DeferredMemory::kScales);
  if (l.has_minima) result.minima = tensor(panels->minima(), scales, DeferredMemory::kMinima);
  if (!l.values.empty()) result.values = frozen_floats(l.values);
  if (!l.order.empty()) {
    const auto held = std::make_shared<const std::vector<int64_t>>(l.order);
    result.order = Tensor::from_frozen(std::as_bytes(std::span(*held)), {DType::kInt64, {l.depth}}, held);
  }
  return result;
}

PackedMatrix integer_matrix(const IntegerCodes& codes, SharedInputScales& scales) {
  // Frozen, so that what is made of scales alone is computed once.
  const auto number = [](float value) {
    const auto held = std::make_shared<const float>(value);
    return Tensor::from_frozen(std::as_bytes(std::span(held.get(), 1)), {DType::kFloat32, {}}, held);
  };
  auto known = scales.find(codes.input_scale);
  if (known == scales.end()) {
    known =
        scales.emplace(codes.input_scale, std::pair{number(codes.input_scale), number(1 / codes.input_scale)}).first;
  }
  IntegerWeight weight{
      .codes = Tensor::from_frozen(codes.codes.bytes, {DType::kInt8, codes.codes.shape}, codes.codes.owner),
      .scales = frozen_floats(codes.scales),
      .input_scale = known->second.first,
      .input_inverse = known->second.second};
  // Linear layers multiply bytes without a sign; convolutions want a zero point of 0.
  const bool is_unsigned = codes.codes.shape.size() == 2 || codes.input_zero_point == -128;
  weight.input_type = is_unsigned ? DType::kUInt8 : DType::kInt8;
  weight.zero_point = codes.input_zero_point + (is_unsigned ? 128 : 0);
  PackedMatrix matrix{.bits = 8, .rows = codes.codes.shape[0]};
  matrix.depth = static_cast<int64_t>(codes.codes.bytes.size()) / std::max<int64_t>(matrix.rows, 1);
  matrix.integers = std::make_shared<const IntegerWeight>(std::move(weight));
  return matrix;
}

std::string rounded_activations(const BlockLayout& layout) {
  // Tables of integers, or of halves (IQ4, MXFP4), are multiplied in integers; with others (nf4, fp8) nothing is won.
  const auto whole = [](float value) { return std::fabs(value) <= 63 && 2 * value == std::nearbyint(2 * value); };
  const auto integer = [](float value) { return std::fabs(value) <= 127 && value == std::nearbyint(value); };
  if (!layout.values.empty() &&
      (layout.bits != 4 || !(std::all_of(layout.values.begin(), layout.values.end(), whole) ||
                             std::all_of(layout.values.begin(), layout.values.end(), integer))))
    return "float32";
  return layout.inputs_by_token && layout.values.empty() ? "int8_token" : "int8";
}

std::string fast_activations(const BlockLayout& layout) {
  return layout.values.empty() && layout.inputs_by_token ? "int16" : rounded_activations(layout);
}

bool holds_float8(const BlockLayout& layout) {
  if (layout.bits != 8 || layout.group % 32 != 0 || layout.values.size() != float8_values().size()) return false;
  for (size_t code = 0; code < layout.values.size(); ++code)
    if (!std::isnan(float8_values()[code]) && layout.values[code] != float8_values()[code]) return false;
  return true;
}

std::string rounded_head_activations(const std::string& activations) {
  return activations == "float32" ? activations : "int16";
}

PackedMatrix packed_by_row(const Tensor& weight) {
  const auto numbers = weight.to_vector<float>();
  return *packed_matrix(*rounded_matrix(numbers.data(), weight.dim(0), weight.dim(1), {.bits = 8}));
}

}  // namespace transom
