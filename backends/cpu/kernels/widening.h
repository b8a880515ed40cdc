// SPDX-License-Identifier: Apache-2.0
// Whole tensors of 16-bit floats to f32 and back, for what is not computed in the 16-bit type itself.
#pragma once

#include <algorithm>
#include <cstring>
#include <vector>

#include "cpu/device/types.h"
#include "cpu/kernels/scratch.h"
#include "cpu/vector/kernels.h"

namespace transom::cpu {

// Between the storage of a 16-bit float type and f32.
inline TileFunction load_function(transom_dtype dtype) {
  return dtype == TRANSOM_FLOAT16 ? vector_kernels().load_f16 : vector_kernels().load_bf16;
}
inline TileFunction store_function(transom_dtype dtype) {
  return dtype == TRANSOM_FLOAT16 ? vector_kernels().store_f16 : vector_kernels().store_bf16;
}

inline void widen(transom_dtype dtype, const std::byte* from, float* to, int64_t count) {
  const TileFunction load = load_function(dtype);
  parallel_ranges(count, 1 << 15, [=](int64_t begin, int64_t end) {
    load(to + begin, from + begin * 2, nullptr, nullptr, static_cast<size_t>(end - begin));
  });
}

inline void narrow(transom_dtype dtype, const float* from, std::byte* to, int64_t count) {
  const TileFunction store = store_function(dtype);
  parallel_ranges(count, 1 << 15, [=](int64_t begin, int64_t end) {
    store(to + begin * 2, from + begin, nullptr, nullptr, static_cast<size_t>(end - begin));
  });
}

// A row of sums, plus `shift` where it is not null, in the type of the output.
inline void store_sums(float* sums, const float* shift, int64_t count, transom_dtype dtype, std::byte* to) {
  for (int64_t j = 0; shift && j < count; ++j) sums[j] += shift[j];
  constexpr int64_t kPanel = 16;  // a copy of known length is no call
  if (dtype == TRANSOM_FLOAT32 && count == kPanel) std::memcpy(to, sums, kPanel * sizeof(float));
  else if (dtype == TRANSOM_FLOAT32) std::copy_n(sums, count, reinterpret_cast<float*>(to));
  else store_function(dtype)(to, sums, nullptr, nullptr, static_cast<size_t>(count));
}

// Floating-point values of one type as another, f64 apart.
inline void convert(transom_dtype from_dtype, const std::byte* from, transom_dtype to_dtype, std::byte* to,
                    int64_t count) {
  if (from_dtype == to_dtype) {
    std::memcpy(to, from, static_cast<size_t>(count) * element_size(to_dtype));
  } else if (from_dtype == TRANSOM_FLOAT32) {
    narrow(to_dtype, reinterpret_cast<const float*>(from), to, count);
  } else if (to_dtype == TRANSOM_FLOAT32) {
    widen(from_dtype, from, reinterpret_cast<float*>(to), count);
  } else {
    std::vector<float> wide(static_cast<size_t>(count));
    widen(from_dtype, from, wide.data(), count);
    narrow(to_dtype, wide.data(), to, count);
  }
}

}  // namespace transom::cpu
