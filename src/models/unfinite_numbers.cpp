// SPDX-License-Identifier: Apache-2.0
#include "models/unfinite_numbers.h"

#include <algorithm>
#include <cstring>
#include <numeric>

#include "base/error.h"
#include "base/files/files.h"
#include "graph/ops/products/integer_products.h"
#include "graph/ops/products/packed_matrix.h"

namespace transom {
namespace {

// Whether one of the numbers has all bits of `exponent` set: it is an infinity or a NaN then.
template <typename Bits>
bool any_unfinite(std::span<const std::byte> bytes, Bits exponent) {
  constexpr size_t kTogether = 4096;
  const size_t count = bytes.size() / sizeof(Bits);
  for (size_t begin = 0; begin < count; begin += kTogether) {
    const size_t end = std::min(count, begin + kTogether);
    Bits found = 0;
    for (size_t i = begin; i < end; ++i) {
      Bits bits;  // views of a file need not be aligned
      std::memcpy(&bits, bytes.data() + i * sizeof(Bits), sizeof(Bits));
      found |= static_cast<Bits>((bits & exponent) == exponent);
    }
    if (found) return true;
  }
  return false;
}

bool may_be_unfinite(const std::string& name, const Tensor& input) {
  return is_floating(input.dtype()) && name != "labels" && name.find("mask") == std::string::npos;
}

// 0 for the rows of x [N, ...] whose numbers are finite, NaN for the others: [N].
Tensor marks_of_rows(const Tensor& x) {
  Axes axes(static_cast<size_t>(x.rank()) - 1);
  std::iota(axes.begin(), axes.end(), int64_t{1});
  const Tensor nothing = cast(x, DType::kFloat32) * 0.0;
  return axes.empty() ? nothing : reduce_sum(nothing, axes);
}

}  // namespace

bool reads_integers(const Model& model) {
  return std::any_of(model.frozen().begin(), model.frozen().end(),
                     [](const auto& weight) { return weight->packed && weight->packed->integers; });
}

NamedTensors with_unfinite_rows(const Model& model, const NamedTensors& inputs, NamedTensors outputs) {
  const bool any = std::any_of(inputs.items().begin(), inputs.items().end(),
                               [](const auto& input) { return may_be_unfinite(input.first, input.second); });
  if (!any || !reads_integers(model)) return outputs;
  NamedTensors marked;
  for (const auto& [name, output] : outputs.items()) {
    Tensor result = output;
    for (const auto& [input_name, input] : inputs.items()) {
      if (!is_floating(result.dtype()) || input.rank() == 0 || !may_be_unfinite(input_name, input)) continue;
      const Tensor marks = marks_of_rows(input.detach());
      if (result.rank() > 0 && result.dim(0) == input.dim(0)) {
        Shape beside(static_cast<size_t>(result.rank()), 1);
        beside[0] = input.dim(0);
        result = result + cast(reshape(marks, beside), result.dtype());
      } else {
        result = result + cast(reduce_sum(marks, {0}), result.dtype());
      }
    }
    marked.set(name, result);
  }
  return marked;
}

void expect_finite(const TensorView& view, const std::string& where) {
  constexpr size_t kLarge = 1 << 20;
  bool found = false;
  if (view.dtype == DType::kFloat32) found = any_unfinite<uint32_t>(view.bytes, 0x7f800000u);
  else if (view.dtype == DType::kFloat64) found = any_unfinite<uint64_t>(view.bytes, 0x7ff0000000000000u);
  else if (view.dtype == DType::kBFloat16) found = any_unfinite<uint16_t>(view.bytes, uint16_t{0x7f80});
  else if (view.dtype == DType::kFloat16) found = any_unfinite<uint16_t>(view.bytes, uint16_t{0x7c00});
  if (view.bytes.size() >= kLarge) release_mapped(view.bytes);
  if (found)
    fail(
        "{}: expected finite numbers, found an infinity or a NaN; layers of 8-bit inputs would hide it: quantise the "
        "model anew, or load it with activations 'float32'",
        where);
}

}  // namespace transom
