// SPDX-License-Identifier: Apache-2.0
#include "models/onnx/proto/element_type.h"

#include <iterator>

#include "base/error.h"

namespace transom::onnx {
namespace {

using E = ElementType;

// What our tensors lack is carried by a type that holds every value: 16-bit integers by i32, unsigned 64-bit ones by
// i64 with the same bits, small floats by f32.
constexpr ElementTypeInfo kTypes[] = {
    {E::kFloat32, "float", 32, DType::kFloat32, "F32"},
    {E::kUInt8, "uint8", 8, DType::kUInt8, "U8"},
    {E::kInt8, "int8", 8, DType::kInt8, "I8"},
    {E::kUInt16, "uint16", 16, DType::kInt32, "U16"},
    {E::kInt16, "int16", 16, DType::kInt32, "I16"},
    {E::kInt32, "int32", 32, DType::kInt32, "I32"},
    {E::kInt64, "int64", 64, DType::kInt64, "I64"},
    {E::kString, "string", 0, std::nullopt, ""},
    {E::kBool, "bool", 8, DType::kBool, "BOOL"},
    {E::kFloat16, "float16", 16, DType::kFloat16, "F16"},
    {E::kFloat64, "double", 64, DType::kFloat64, "F64"},
    {E::kUInt32, "uint32", 32, DType::kUInt32, "U32"},
    {E::kUInt64, "uint64", 64, DType::kInt64, "U64"},
    {E::kBFloat16, "bfloat16", 16, DType::kBFloat16, "BF16"},
    {E::kFloat8E4M3FN, "float8e4m3fn", 8, DType::kFloat32, "F8_E4M3"},
    {E::kFloat8E4M3FNUZ, "float8e4m3fnuz", 8, DType::kFloat32, ""},
    {E::kFloat8E5M2, "float8e5m2", 8, DType::kFloat32, "F8_E5M2"},
    {E::kFloat8E5M2FNUZ, "float8e5m2fnuz", 8, DType::kFloat32, ""},
    {E::kUInt4, "uint4", 4, DType::kUInt8, ""},
    {E::kInt4, "int4", 4, DType::kInt8, ""},
    {E::kFloat4E2M1, "float4e2m1", 4, DType::kFloat32, ""},
    {E::kFloat8E8M0, "float8e8m0", 8, DType::kFloat32, ""},
    {E::kUInt2, "uint2", 2, DType::kUInt8, ""},
    {E::kInt2, "int2", 2, DType::kInt8, ""},
};

}  // namespace

const ElementTypeInfo* find_element_type(int64_t number) {
  for (const ElementTypeInfo& type : kTypes)
    if (static_cast<int64_t>(type.type) == number) return &type;
  return nullptr;
}

const ElementTypeInfo& info(ElementType type) {
  const ElementTypeInfo* found = find_element_type(static_cast<int64_t>(type));
  if (!found) fail(ErrorKind::kInternal, "there is no element type {}", static_cast<int64_t>(type));
  return *found;
}

ElementType element_type_of(DType dtype) {
  for (const ElementTypeInfo& type : kTypes)
    if (type.carrier == dtype && !is_narrower_than_carrier(type.type) && type.type != E::kUInt64) return type.type;
  fail(ErrorKind::kInternal, "no element type of ONNX is {}", name_of(dtype));
}

bool is_floating(ElementType type) {
  const std::optional<DType> carrier = info(type).carrier;
  return carrier && transom::is_floating(*carrier);
}

bool is_float8(ElementType type) {
  return type == E::kFloat8E4M3FN || type == E::kFloat8E4M3FNUZ || type == E::kFloat8E5M2 || type == E::kFloat8E5M2FNUZ;
}

bool is_unsigned(ElementType type) { return info(type).name.starts_with("uint"); }

bool is_integer(ElementType type) {
  const std::optional<DType> carrier = info(type).carrier;
  return carrier && transom::is_integer(*carrier);
}

bool is_narrower_than_carrier(ElementType type) {
  const ElementTypeInfo& found = info(type);
  return found.carrier && found.type != E::kBool && found.bits < static_cast<int>(8 * size_of(*found.carrier));
}

}  // namespace transom::onnx
