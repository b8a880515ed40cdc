// SPDX-License-Identifier: Apache-2.0
// The element types of ONNX (TensorProto.DataType), and how tensors of Transom carry them.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "transom/dtype.h"

namespace transom::onnx {

// The numbers are those of the file.
enum class ElementType : int32_t {
  kUndefined = 0,
  kFloat32 = 1,
  kUInt8 = 2,
  kInt8 = 3,
  kUInt16 = 4,
  kInt16 = 5,
  kInt32 = 6,
  kInt64 = 7,
  kString = 8,
  kBool = 9,
  kFloat16 = 10,
  kFloat64 = 11,
  kUInt32 = 12,
  kUInt64 = 13,
  kBFloat16 = 16,
  kFloat8E4M3FN = 17,
  kFloat8E4M3FNUZ = 18,
  kFloat8E5M2 = 19,
  kFloat8E5M2FNUZ = 20,
  kUInt4 = 21,
  kInt4 = 22,
  kFloat4E2M1 = 23,
  kFloat8E8M0 = 24,
  kUInt2 = 25,
  kInt2 = 26,
};

struct ElementTypeInfo {
  ElementType type;
  std::string_view name;         // as the standard writes it in tensor(...): "float", "uint16"
  int bits;                      // of one element in a file; 0 for strings
  std::optional<DType> carrier;  // the type of the tensors that hold such values exactly; none: no tensor holds them
  std::string_view safetensors;  // its name in a safetensors file; empty: there is none
};

// Null for numbers that the standard does not name.
const ElementTypeInfo* find_element_type(int64_t number);
const ElementTypeInfo& info(ElementType type);  // of a type that find_element_type knows
inline std::string_view name_of(ElementType type) { return info(type).name; }
// The type whose elements are exactly those of `dtype`.
ElementType element_type_of(DType dtype);

bool is_floating(ElementType type);  // of any width
bool is_float8(ElementType type);    // the four types of 8 bits that are no mere exponent
bool is_unsigned(ElementType type);
bool is_integer(ElementType type);  // signed or unsigned; bool is neither
// Whether the carrier holds more values than the type, so that results must be brought back into its range.
bool is_narrower_than_carrier(ElementType type);

}  // namespace transom::onnx
