// SPDX-License-Identifier: Apache-2.0
// Values of ONNX's element types: in tensors of their carriers, and as the bytes of files.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "models/onnx/import/run/value.h"
#include "models/onnx/proto/model.h"

namespace transom::onnx {

// Brings the results of arithmetic in a wider carrier back into the type's range: integers wrap around, small floats
// are rounded as Cast rounds them. Other types stay as they are.
Tensor in_range(const Tensor& carrier, ElementType type);

// As the operator Cast: between all numeric types and bool. `saturate` is of types of 8 bits and below alone: what is
// too large becomes the largest finite value instead of NaN or infinity.
Tensor cast_to(const Value& value, ElementType type, bool saturate = true);
inline Value cast_value(const Value& value, ElementType type, bool saturate = true) {
  return {type, cast_to(value, type, saturate)};
}

// A tensor of a file, as a frozen leaf that reads the file's memory where the carrier's elements are the same. Refuses
// strings.
Value value_of(const TensorData& data, const std::string& where);

// The elements as a file holds them, and back. Types of less than a byte take a part of one.
std::vector<std::byte> packed_bytes(const Value& value);
Value value_of_bytes(std::span<const std::byte> bytes, ElementType type, const Shape& shape,
                     std::shared_ptr<const void> owner);

// A frozen leaf with these values: for numbers that are known while a graph is traced.
Tensor integers(const std::vector<int64_t>& values);  // i64 [n]
Tensor integers(const std::vector<int64_t>& values, const Shape& shape, DType dtype);
Tensor integer(int64_t value, DType dtype = DType::kInt64);  // []
Tensor numbers(const std::vector<double>& values, const Shape& shape, DType dtype);

// ---- unsigned 64-bit numbers in tensors of i64
Tensor unsigned_less(const Tensor& x, const Tensor& y);
Tensor unsigned_divide(const Tensor& x, const Tensor& y);           // by zero: 0
Tensor shift_right_logical(const Tensor& x, const Tensor& places);  // places in [0, 64)

}  // namespace transom::onnx
