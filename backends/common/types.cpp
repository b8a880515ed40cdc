// SPDX-License-Identifier: Apache-2.0
#include "common/types.h"

#include <fmt/ranges.h>

#include <algorithm>

namespace transom::backend {

const char* dtype_name(transom_dtype dtype) {
  static constexpr const char* kNames[] = {"bool", "u8", "i8", "i32", "i64", "u32", "f16", "bf16", "f32", "f64"};
  return dtype >= TRANSOM_BOOL && dtype <= TRANSOM_FLOAT64 ? kNames[dtype] : "?";
}

std::string to_string(const Type& type) {
  return fmt::format("{}[{}]", dtype_name(type.dtype), fmt::join(type.shape, ","));
}

Type type_of(const transom_graph& graph, int32_t index) {
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
