// SPDX-License-Identifier: Apache-2.0
// Element types and shapes of the plugin interface.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "common/error.h"

namespace transom::backend {

using Shape = std::vector<int64_t>;

// In bytes; refuses an unknown one.
inline size_t element_size(transom_dtype dtype) {
  if (const size_t size = plugin::size_of(dtype)) return size;
  fail(TRANSOM_INVALID_ARGUMENT, "expected an element type of the interface, found number {}", static_cast<int>(dtype));
}
const char* dtype_name(transom_dtype dtype);  // "f32"

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

std::string to_string(const Type& type);  // "f32[2,3]"

// Of a value of a graph; refuses an index that is none, an unknown element type, and extents that fit no memory.
Type type_of(const transom_graph& graph, int32_t value);

}  // namespace transom::backend
