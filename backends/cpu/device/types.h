// SPDX-License-Identifier: Apache-2.0
// Element types and shapes. 16-bit floats are storage only: all arithmetic on them is done in f32.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "cpu/device/error.h"
#include "transom/plugin/types.h"

namespace transom::cpu {

using backend::dtype_name;
using backend::element_size;
using backend::is_floating;
using backend::is_half;
using backend::product;
using backend::Shape;
using backend::to_string;
using backend::Type;
using backend::type_of;

struct BFloat16 {
  uint16_t bits = 0;
  BFloat16() = default;
  BFloat16(float value) {
    const uint32_t u = std::bit_cast<uint32_t>(value);
    if ((u & 0x7FFFFFFF) > 0x7F800000) bits = static_cast<uint16_t>((u >> 16) | 0x40);  // a NaN stays one
    else bits = static_cast<uint16_t>((u + 0x7FFF + ((u >> 16) & 1)) >> 16);
  }
  operator float() const { return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16); }
};

struct Float16 {
  uint16_t bits = 0;
  Float16() = default;
  Float16(float value);
  operator float() const;
};

// Calls body.template operator()<T>() with the C++ type of the dtype; bool is uint8_t.
template <typename Body>
auto dispatch(transom_dtype dtype, Body&& body) {
  switch (dtype) {
    case TRANSOM_BOOL:
    case TRANSOM_UINT8:
      return body.template operator()<uint8_t>();
    case TRANSOM_INT8:
      return body.template operator()<int8_t>();
    case TRANSOM_INT32:
      return body.template operator()<int32_t>();
    case TRANSOM_INT64:
      return body.template operator()<int64_t>();
    case TRANSOM_UINT32:
      return body.template operator()<uint32_t>();
    case TRANSOM_FLOAT16:
      return body.template operator()<Float16>();
    case TRANSOM_BFLOAT16:
      return body.template operator()<BFloat16>();
    case TRANSOM_FLOAT32:
      return body.template operator()<float>();
    case TRANSOM_FLOAT64:
      return body.template operator()<double>();
  }
  fail(TRANSOM_INVALID_ARGUMENT, "expected an element type of the interface, found number {}", static_cast<int>(dtype));
}

// The type that sums of T are kept in.
template <typename T>
struct ComputeType {
  using type = T;
};
template <>
struct ComputeType<Float16> {
  using type = float;
};
template <>
struct ComputeType<BFloat16> {
  using type = float;
};
template <typename T>
using Compute = typename ComputeType<T>::type;

}  // namespace transom::cpu
