// SPDX-License-Identifier: Apache-2.0
#include "graph/ops/array_bytes.h"

#include <cstring>

#include "base/numbers/half.h"
#include "graph/ops/rules.h"

namespace transom {
namespace {

// Imported memory need not be aligned, so elements are copied rather than pointed at.
template <typename Element, typename Value>
void read(const std::byte* bytes, std::vector<Value>& values) {
  for (Value& value : values) {
    Element element;
    std::memcpy(&element, bytes, sizeof(Element));
    bytes += sizeof(Element);
    value = static_cast<Value>(element);
  }
}

template <typename Element, typename Value>
void write(const std::vector<Value>& values, std::byte* bytes) {
  for (const Value value : values) {
    Element element;
    if constexpr (sizeof(Element) == 2) element = Element(static_cast<float>(value));  // the two 16-bit floats
    else element = static_cast<Element>(value);
    std::memcpy(bytes, &element, sizeof(Element));
    bytes += sizeof(Element);
  }
}

}  // namespace

Array load_array(const std::byte* bytes, const Type& type) {
  Array array(type);
  switch (type.dtype) {
    case DType::kBool:
    case DType::kUInt8:
      read<uint8_t>(bytes, array.integer);
      break;
    case DType::kInt8:
      read<int8_t>(bytes, array.integer);
      break;
    case DType::kInt32:
      read<int32_t>(bytes, array.integer);
      break;
    case DType::kInt64:
      read<int64_t>(bytes, array.integer);
      break;
    case DType::kUInt32:
      read<uint32_t>(bytes, array.integer);
      break;
    case DType::kFloat16:
      read<Float16>(bytes, array.real);
      break;
    case DType::kBFloat16:
      read<BFloat16>(bytes, array.real);
      break;
    case DType::kFloat32:
      read<float>(bytes, array.real);
      break;
    case DType::kFloat64:
      read<double>(bytes, array.real);
      break;
  }
  return array;
}

void store_array(Array& array, std::byte* bytes) {
  round_to_dtype(array);
  switch (array.type.dtype) {
    case DType::kBool:
    case DType::kUInt8:
      write<uint8_t>(array.integer, bytes);
      break;
    case DType::kInt8:
      write<int8_t>(array.integer, bytes);
      break;
    case DType::kInt32:
      write<int32_t>(array.integer, bytes);
      break;
    case DType::kInt64:
      write<int64_t>(array.integer, bytes);
      break;
    case DType::kUInt32:
      write<uint32_t>(array.integer, bytes);
      break;
    case DType::kFloat16:
      write<Float16>(array.real, bytes);
      break;
    case DType::kBFloat16:
      write<BFloat16>(array.real, bytes);
      break;
    case DType::kFloat32:
      write<float>(array.real, bytes);
      break;
    case DType::kFloat64:
      write<double>(array.real, bytes);
      break;
  }
}

}  // namespace transom
