// SPDX-License-Identifier: Apache-2.0
// Conversions between lane types, and between f32 and the 16-bit floats of storage.
#if defined(__AVX2__)
#include <immintrin.h>
#endif

#include "cpu/vector/half.h"
#include "cpu/vector/maps.h"

namespace transom::cpu::TRANSOM_LEVEL {
namespace {

template <typename From, typename To>
void convert(void* y, const void* a, const void*, const void*, size_t n) {
  auto* out = static_cast<To*>(y);
  auto* x = static_cast<const From*>(a);
  TRANSOM_SIMD
  for (size_t i = 0; i < n; ++i) out[i] = static_cast<To>(x[i]);
}

struct ToBool {
  template <typename T>
  static uint8_t apply(T x) {
    return x != T{0};
  }
};
struct LoadF16 {
  template <typename T>
  static float apply(T x) {
    return f16_to_float(x);
  }
};
struct LoadBF16 {
  template <typename T>
  static float apply(T x) {
    return bf16_to_float(x);
  }
};
struct StoreF16 {
  template <typename T>
  static uint16_t apply(T x) {
    return float_to_f16(x);
  }
};
struct StoreBF16 {
  template <typename T>
  static uint16_t apply(T x) {
    return float_to_bf16(x);
  }
};
struct RoundF16 {
  template <typename T>
  static float apply(T x) {
    return f16_to_float(float_to_f16(x));
  }
};
struct RoundBF16 {
  template <typename T>
  static float apply(T x) {
    return bf16_to_float(float_to_bf16(x));
  }
};

#if defined(__AVX2__)
// The processor converts f16 itself, eight at a time.
void load_f16_fast(void* y, const void* a, const void*, const void*, size_t n) {
  auto* out = static_cast<float*>(y);
  auto* x = static_cast<const uint16_t*>(a);
  size_t i = 0;
  for (; i + 8 <= n; i += 8)
    _mm256_storeu_ps(out + i, _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(x + i))));
  for (; i < n; ++i) out[i] = f16_to_float(x[i]);
}

void store_f16_fast(void* y, const void* a, const void*, const void*, size_t n) {
  auto* out = static_cast<uint16_t*>(y);
  auto* x = static_cast<const float*>(a);
  size_t i = 0;
  for (; i + 8 <= n; i += 8)
    _mm_storeu_si128(reinterpret_cast<__m128i*>(out + i), _mm256_cvtps_ph(_mm256_loadu_ps(x + i), _MM_FROUND_TO_NEAREST_INT));
  for (; i < n; ++i) out[i] = float_to_f16(x[i]);
}
#endif

template <typename From>
void fill_from(VectorKernels& kernels, Lane from) {
  TileFunction(&row)[kLanes] = kernels.convert[from];
  row[kU8] = convert<From, uint8_t>;
  row[kI8] = convert<From, int8_t>;
  row[kI32] = convert<From, int32_t>;
  row[kI64] = convert<From, int64_t>;
  row[kU32] = convert<From, uint32_t>;
  row[kF32] = convert<From, float>;
  row[kF64] = convert<From, double>;
  kernels.to_bool[from] = map1<ToBool, From, uint8_t>;
}

}  // namespace

void fill_conversions(VectorKernels& kernels) {
  fill_from<uint8_t>(kernels, kU8);
  fill_from<int8_t>(kernels, kI8);
  fill_from<int32_t>(kernels, kI32);
  fill_from<int64_t>(kernels, kI64);
  fill_from<uint32_t>(kernels, kU32);
  fill_from<float>(kernels, kF32);
  fill_from<double>(kernels, kF64);
  kernels.load_f16 = map1<LoadF16, uint16_t, float>;
  kernels.load_bf16 = map1<LoadBF16, uint16_t, float>;
  kernels.store_f16 = map1<StoreF16, float, uint16_t>;
  kernels.store_bf16 = map1<StoreBF16, float, uint16_t>;
#if defined(__AVX2__)
  kernels.load_f16 = load_f16_fast;
  kernels.store_f16 = store_f16_fast;
#endif
  kernels.round_f16 = map1<RoundF16, float>;
  kernels.round_bf16 = map1<RoundBF16, float>;
}

}  // namespace transom::cpu::TRANSOM_LEVEL
