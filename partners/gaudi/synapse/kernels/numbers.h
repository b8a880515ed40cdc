// SPDX-License-Identifier: Apache-2.0
// The element types of the card, and conversion of rows of elements to the types that kernels compute in: float, or
// int64 for integers. Rounding is to nearest even; what is too large for an fp8 type saturates.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>

#include "../synapse_interface.h"

namespace synapse_emulator {

struct Bfloat16 {
  uint16_t bits;
  Bfloat16() = default;
  explicit Bfloat16(float value) {
    const uint32_t all = std::bit_cast<uint32_t>(value);
    if ((all & 0x7FFFFFFF) > 0x7F800000) bits = static_cast<uint16_t>((all >> 16) | 0x40);  // stays a NaN
    else bits = static_cast<uint16_t>((all + 0x7FFF + ((all >> 16) & 1)) >> 16);
  }
  operator float() const { return std::bit_cast<float>(uint32_t{bits} << 16); }
};

struct Half {
  uint16_t bits;
  Half() = default;
  explicit Half(float value);
  operator float() const;
};

// E4M3 as the generation has it (largest 240 or 448) and E5M2.
struct Float8E4M3 {
  uint8_t bits;
  Float8E4M3() = default;
  explicit Float8E4M3(float value);
  operator float() const;
};
struct Float8E5M2 {
  uint8_t bits;
  Float8E5M2() = default;
  explicit Float8E5M2(float value);
  operator float() const;
};

template <typename T>
struct Tag {
  using type = T;
};

// Calls f(Tag<T>) with the C++ type of `type`.
template <typename F>
auto with_type(synDataType type, const F& f) {
  switch (type) {
    case syn_type_bf16:
      return f(Tag<Bfloat16>());
    case syn_type_fp16:
      return f(Tag<Half>());
    case syn_type_fp8_143:
      return f(Tag<Float8E4M3>());
    case syn_type_fp8_152:
      return f(Tag<Float8E5M2>());
    case syn_type_int8:
      return f(Tag<int8_t>());
    case syn_type_uint8:
      return f(Tag<uint8_t>());
    case syn_type_int16:
      return f(Tag<int16_t>());
    case syn_type_uint16:
      return f(Tag<uint16_t>());
    case syn_type_int32:
      return f(Tag<int32_t>());
    case syn_type_uint32:
      return f(Tag<uint32_t>());
    case syn_type_int64:
      return f(Tag<int64_t>());
    default:
      return f(Tag<float>());
  }
}

// The element at `index` and those after it, as `Value` (float or int64_t). `stride` 0 repeats one element.
template <typename Value>
void load(synDataType type, const char* data, int64_t index, int64_t stride, int64_t count, Value* out) {
  with_type(type, [&](auto tag) {
    using T = typename decltype(tag)::type;
    const T* from = reinterpret_cast<const T*>(data) + index;
    if (stride == 1)
      for (int64_t i = 0; i < count; ++i) out[i] = static_cast<Value>(from[i]);
    else
      for (int64_t i = 0; i < count; ++i) out[i] = static_cast<Value>(from[i * stride]);
  });
}
template <typename Value>
void store(synDataType type, char* data, int64_t index, int64_t stride, int64_t count, const Value* in) {
  with_type(type, [&](auto tag) {
    using T = typename decltype(tag)::type;
    T* to = reinterpret_cast<T*>(data) + index;
    for (int64_t i = 0; i < count; ++i) {
      if constexpr (std::is_integral_v<T> && std::is_floating_point_v<Value>)
        to[i * stride] = static_cast<T>(static_cast<int64_t>(in[i]));
      else if constexpr (std::is_integral_v<Value> && !std::is_arithmetic_v<T>)
        to[i * stride] = T(static_cast<float>(in[i]));
      else to[i * stride] = static_cast<T>(in[i]);
    }
  });
}

}  // namespace synapse_emulator
