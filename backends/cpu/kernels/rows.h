// SPDX-License-Identifier: Apache-2.0
// For kernels that work on one row of f32 at a time: rows of 16-bit floats are widened into the thread's scratch
// memory.
#pragma once

#include "cpu/device/threads.h"
#include "cpu/device/types.h"
#include "cpu/kernels/widening.h"

namespace transom::cpu {

// A tensor seen as rows along its last axis.
struct Rows {
  int64_t count, width;
  transom_dtype dtype;
};

inline Rows rows_of(const Type& type) {
  if (type.rank() == 0) fail(TRANSOM_INVALID_ARGUMENT, "expected a tensor with a last axis, found a scalar");
  if (type.dtype != TRANSOM_FLOAT32 && !is_half(type.dtype))
    fail(TRANSOM_UNSUPPORTED, "expected f32, f16 or bf16, found {}", to_string(type));
  return {product(type.shape, 0, type.rank() - 1), type.shape.back(), type.dtype};
}

// The row as f32: itself, or widened into `buffer`.
inline const float* read_row(const Rows& rows, const std::byte* base, int64_t row, float* buffer) {
  const std::byte* at = base + static_cast<size_t>(row * rows.width) * element_size(rows.dtype);
  if (rows.dtype == TRANSOM_FLOAT32) return reinterpret_cast<const float*>(at);
  load_function(rows.dtype)(buffer, at, nullptr, nullptr, static_cast<size_t>(rows.width));
  return buffer;
}

// Where to compute the row: in place, or in `buffer` until write_row.
inline float* row_target(const Rows& rows, std::byte* base, int64_t row, float* buffer) {
  return rows.dtype == TRANSOM_FLOAT32 ? reinterpret_cast<float*>(base) + row * rows.width : buffer;
}

inline void write_row(const Rows& rows, std::byte* base, int64_t row, const float* from) {
  if (rows.dtype == TRANSOM_FLOAT32) return;
  store_function(rows.dtype)(base + static_cast<size_t>(row * rows.width) * 2, from, nullptr, nullptr,
                             static_cast<size_t>(rows.width));
}

inline int64_t row_grain(const Rows& rows) { return std::max<int64_t>((1 << 14) / (rows.width + 1), 1); }

}  // namespace transom::cpu
