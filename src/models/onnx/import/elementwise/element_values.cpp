// SPDX-License-Identifier: Apache-2.0
#include "models/onnx/import/elementwise/element_values.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "base/error.h"
#include "base/files/files.h"
#include "graph/ir/operation.h"
#include "graph/ops/array_bytes.h"
#include "graph/ops/rules.h"
#include "models/onnx/import/elementwise/small_floats.h"

namespace transom::onnx {
namespace {

constexpr int64_t kLowest = std::numeric_limits<int64_t>::min();

bool is_small_float(ElementType type) { return is_floating(type) && is_narrower_than_carrier(type); }

Tensor frozen(Array array) {
  const auto held = std::make_shared<std::vector<std::byte>>(static_cast<size_t>(elements(array.type.shape)) *
                                                             size_of(array.type.dtype));
  store_array(array, held->data());
  return Tensor::from_frozen(*held, array.type, held);
}

// f64 or f32 to u64 bits in i64; negative numbers wrap as a conversion to i64 does.
Tensor floating_to_unsigned64(const Tensor& x) {
  const Tensor half = constant(9223372036854775808.0, x.dtype());
  const Tensor large = greater_equal(x, half);
  return select(large, add(cast(select(large, sub(x, half), x), DType::kInt64), integer(kLowest)),
                cast(select(large, constant(0, x.dtype()), x), DType::kInt64));
}

Tensor unsigned64_to_floating(const Tensor& x, DType dtype) {
  const Tensor zero = integer(0);
  // The lowest bit is kept in the half, so that it is rounded as the whole would be.
  const Tensor half = logical_or(shift_right_logical(x, integer(1)), logical_and(x, integer(1)));
  const Tensor negative = less(x, zero);
  return select(negative, cast(half, dtype) * 2.0, cast(select(negative, zero, x), dtype));
}

// From any carrier to bool, i32, i64 or a floating type, as values.
Tensor cast_number(const Value& value, DType dtype) {
  const Tensor& x = value.tensor;
  if (value.type == ElementType::kUInt64 && transom::is_floating(dtype)) return unsigned64_to_floating(x, dtype);
  return cast(x, dtype);
}

}  // namespace

Tensor in_range(const Tensor& carrier, ElementType type) {
  if (!is_narrower_than_carrier(type)) return carrier;
  if (is_small_float(type)) return round_to_small_float(carrier, type, true);
  const int bits = info(type).bits;
  const DType dtype = carrier.dtype();
  const auto number = [&](int64_t n) { return constant(static_cast<double>(n), dtype); };
  const int64_t mask = (int64_t{1} << bits) - 1, half = int64_t{1} << (bits - 1);
  if (is_unsigned(type)) return logical_and(carrier, number(mask));
  if (dtype == DType::kInt8) {
    const Tensor wide = cast(carrier, DType::kInt32);
    const auto n = [](int64_t value) { return constant(static_cast<double>(value), DType::kInt32); };
    return cast(sub(logical_and(add(wide, n(half)), n(mask)), n(half)), DType::kInt8);
  }
  return sub(logical_and(add(carrier, number(half)), number(mask)), number(half));
}

Tensor cast_to(const Value& value, ElementType type, bool saturate) {
  if (value.type == type) return value.tensor;
  const ElementTypeInfo& to = info(type);
  if (!to.carrier || !info(value.type).carrier)
    fail("a cast from {} to {} is not supported", name_of(value.type), name_of(type));
  if (type == ElementType::kBool) return not_equal(value.tensor, constant(0, value.tensor.dtype()));
  const bool from_floating = is_floating(value.type);
  if (is_small_float(type)) {
    if (type == ElementType::kFloat8E8M0) fail("a cast to {} is not supported", name_of(type));
    const DType wide = value.tensor.dtype() == DType::kFloat64 ? DType::kFloat64 : DType::kFloat32;
    return cast(round_to_small_float(cast_number(value, wide), type, saturate), DType::kFloat32);
  }
  if (type == ElementType::kUInt64)
    return from_floating
               ? floating_to_unsigned64(value.tensor.dtype() == DType::kFloat64 ? value.tensor
                                                                                : cast(value.tensor, DType::kFloat32))
               : cast(value.tensor, DType::kInt64);
  if (to.bits < 32 && is_integer(type)) {
    // By way of a wide integer, so that what does not fit wraps around.
    const Tensor wide = cast(value.tensor, from_floating ? DType::kInt32 : DType::kInt64);
    if (!is_narrower_than_carrier(type)) {
      const bool is_signed = !is_unsigned(type);
      const auto n = [&](double number) { return constant(number, wide.dtype()); };
      const Tensor wrapped =
          is_signed ? sub(logical_and(add(wide, n(128)), n(255)), n(128)) : logical_and(wide, n(255));
      return cast(wrapped, *to.carrier);
    }
    const auto n = [&](double number) { return constant(number, wide.dtype()); };
    const double mask = static_cast<double>((1 << to.bits) - 1), half = static_cast<double>(1 << (to.bits - 1));
    const Tensor wrapped =
        is_unsigned(type) ? logical_and(wide, n(mask)) : sub(logical_and(add(wide, n(half)), n(mask)), n(half));
    return cast(wrapped, *to.carrier);
  }
  if (type == ElementType::kUInt32 && from_floating)
    return cast(cast(value.tensor.dtype() == DType::kFloat64 ? value.tensor : cast(value.tensor, DType::kFloat32),
                     DType::kInt64),
                DType::kUInt32);
  return cast_number(value, *to.carrier);
}

Value value_of_bytes(std::span<const std::byte> bytes, ElementType type, const Shape& shape,
                     std::shared_ptr<const void> owner) {
  const ElementTypeInfo& element = info(type);
  if (!element.carrier) fail("a tensor of {} is not supported", element.name);
  const Type carrier{*element.carrier, shape};
  if (!is_narrower_than_carrier(type)) {
    const auto aligned = reinterpret_cast<uintptr_t>(bytes.data()) % size_of(carrier.dtype) == 0;
    if (aligned) return {type, Tensor::from_frozen(bytes, carrier, std::move(owner))};
    const auto copy = std::make_shared<std::vector<std::byte>>(bytes.begin(), bytes.end());
    release_mapped(bytes);  // the file's own pages are not read again
    return {type, Tensor::from_frozen(*copy, carrier, copy)};
  }
  Array array(carrier);
  const auto count = static_cast<size_t>(elements(shape));
  const int bits = element.bits;
  for (size_t i = 0; i < count; ++i) {
    if (bits == 16) {
      uint16_t word = 0;
      std::memcpy(&word, bytes.data() + 2 * i, 2);
      array.integer[i] = type == ElementType::kInt16 ? static_cast<int16_t>(word) : word;
      continue;
    }
    const size_t bit = i * static_cast<size_t>(bits);
    const auto byte = static_cast<uint8_t>(bytes[bit / 8]);
    const auto part = static_cast<uint8_t>(byte >> (bit % 8) & ((1 << bits) - 1));
    if (array.floating()) array.real[i] = static_cast<double>(small_float_value(part, type));
    else array.integer[i] = !is_unsigned(type) && part >> (bits - 1) ? part - (1 << bits) : part;
  }
  return {type, frozen(std::move(array))};
}

Value value_of(const TensorData& data, const std::string& where) {
  if (data.type == ElementType::kString) fail("{}: tensor {}: strings are not supported", where, quoted(data.name));
  return value_of_bytes(data.bytes, data.type, data.shape, data.owner);
}

std::vector<std::byte> packed_bytes(const Value& value) {
  if (!is_narrower_than_carrier(value.type)) return value.tensor.to_bytes();
  const int bits = info(value.type).bits;
  const std::vector<double> values = value.tensor.to_vector<double>();
  std::vector<std::byte> bytes((values.size() * static_cast<size_t>(bits) + 7) / 8);
  for (size_t i = 0; i < values.size(); ++i) {
    uint32_t word = is_floating(value.type) ? small_float_bits(static_cast<float>(values[i]), value.type)
                                            : static_cast<uint32_t>(static_cast<int64_t>(values[i]));
    if (bits == 16) {
      const auto half = static_cast<uint16_t>(word);
      std::memcpy(bytes.data() + 2 * i, &half, 2);
      continue;
    }
    word &= (1u << bits) - 1;
    const size_t bit = i * static_cast<size_t>(bits);
    bytes[bit / 8] |= static_cast<std::byte>(word << (bit % 8));
  }
  return bytes;
}

Tensor integers(const std::vector<int64_t>& values, const Shape& shape, DType dtype) {
  Array array({dtype, shape});
  if (array.floating()) std::copy(values.begin(), values.end(), array.real.begin());
  else array.integer = values;
  return frozen(std::move(array));
}

Tensor integers(const std::vector<int64_t>& values) {
  return integers(values, {static_cast<int64_t>(values.size())}, DType::kInt64);
}

Tensor integer(int64_t value, DType dtype) { return integers({value}, {}, dtype); }

Tensor numbers(const std::vector<double>& values, const Shape& shape, DType dtype) {
  Array array({dtype, shape});
  for (size_t i = 0; i < values.size(); ++i) array.set(static_cast<int64_t>(i), values[i]);
  return frozen(std::move(array));
}

Tensor unsigned_less(const Tensor& x, const Tensor& y) {
  const Tensor top = integer(kLowest);
  return less(add(x, top), add(y, top));
}

Tensor shift_right_logical(const Tensor& x, const Tensor& places) {
  // The top bit is taken off and put back at its new place: what is left is not negative, and division shifts it.
  const Tensor zero = integer(0), one = integer(1);
  const Tensor negative = less(x, zero);
  const Tensor low = select(negative, sub(x, integer(kLowest)), x);
  const Tensor at_top = equal(places, zero);
  const Tensor power = pow(integer(2), minimum(places, integer(62)));
  const Tensor shifted = select(equal(places, integer(63)), zero, div(low, power));
  const Tensor top = select(at_top, integer(kLowest), pow(integer(2), sub(integer(63), maximum(places, one))));
  return select(negative, add(select(at_top, low, shifted), top), select(at_top, low, shifted));
}

Tensor unsigned_divide(const Tensor& x, const Tensor& y) {
  const Tensor zero = integer(0), one = integer(1);
  const Tensor half = div(shift_right_logical(x, one), y);
  const Tensor quotient = mul(half, integer(2));
  const Tensor rest = sub(x, mul(quotient, y));
  const Tensor small = add(quotient, select(unsigned_less(rest, y), zero, one));
  const Tensor large = select(unsigned_less(x, y), zero, one);  // the divisor has the top bit
  return select(equal(y, zero), zero, select(less(y, zero), large, small));
}

}  // namespace transom::onnx
