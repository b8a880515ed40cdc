// SPDX-License-Identifier: Apache-2.0
// Element types and shapes of the plugin interface.
#pragma once

#include <fmt/ranges.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "transom/plugin/error.h"

namespace transom::backend {

using Shape = std::vector<int64_t>;

// In bytes; refuses an unknown one.
inline size_t element_size(transom_dtype dtype) {
  if (const size_t size = plugin::size_of(dtype)) return size;
  fail(TRANSOM_INVALID_ARGUMENT, "expected an element type of the interface, found number {}", static_cast<int>(dtype));
}
// "f32"; "?" of a number that is none.
inline const char* dtype_name(transom_dtype dtype) {
  static constexpr const char* kNames[] = {"bool", "u8", "i8", "i32", "i64", "u32", "f16", "bf16", "f32", "f64"};
  return dtype >= TRANSOM_BOOL && dtype <= TRANSOM_FLOAT64 ? kNames[dtype] : "?";
}

inline bool is_half(transom_dtype dtype) { return dtype == TRANSOM_FLOAT16 || dtype == TRANSOM_BFLOAT16; }
inline bool is_floating(transom_dtype dtype) { return dtype >= TRANSOM_FLOAT16; }

inline int64_t product(const Shape& shape, size_t begin, size_t end) {
  int64_t result = 1;
  for (size_t i = begin; i < end; ++i) result *= shape[i];
  return result;
}
inline int64_t product(const Shape& shape) { return product(shape, 0, shape.size()); }

struct Type {
  transom_dtype dtype;
  Shape shape;

  int64_t count() const { return product(shape); }
  size_t rank() const { return shape.size(); }
  size_t bytes() const { return static_cast<size_t>(count()) * element_size(dtype); }
  bool operator==(const Type&) const = default;
};

// "f32[2,3]"
inline std::string to_string(const Type& type) {
  return fmt::format("{}[{}]", dtype_name(type.dtype), fmt::join(type.shape, ","));
}

// Of a value of a graph; refuses an index that is none, an unknown element type, and extents that fit no memory.
inline Type type_of(const transom_graph& graph, int32_t index) {
  if (index < 0 || static_cast<size_t>(index) >= graph.values_count)
    fail(TRANSOM_INVALID_ARGUMENT, "expected a value below {}, found {}", graph.values_count, index);
  const transom_value& value = graph.values[index];
  Type type{static_cast<transom_dtype>(value.dtype), Shape(value.shape, value.shape + value.rank)};
  element_size(type.dtype);
  int64_t count = 1;
  for (const int64_t extent : type.shape)
    if (extent < 0 || __builtin_mul_overflow(count, std::max<int64_t>(extent, 1), &count) || count > INT64_MAX / 8)
      fail(TRANSOM_INVALID_ARGUMENT, "expected extents of at least 0 that fit memory, found {}", to_string(type));
  return type;
}

}  // namespace transom::backend
