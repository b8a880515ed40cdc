// SPDX-License-Identifier: Apache-2.0
#include "hpu/host/host_array.h"

#include <bit>
#include <cmath>
#include <cstring>

namespace transom::hpu {
namespace {

float from_bfloat16(uint16_t bits) { return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16); }

uint16_t to_bfloat16(float value) {
  const auto u = std::bit_cast<uint32_t>(value);
  if ((u & 0x7FFFFFFF) > 0x7F800000) return static_cast<uint16_t>((u >> 16) | 0x40);  // a NaN stays one
  return static_cast<uint16_t>((u + 0x7FFF + ((u >> 16) & 1)) >> 16);
}

float from_float16(uint16_t bits) {
  const int exponent = bits >> 10 & 31, fraction = bits & 1023;
  const float sign = bits & 0x8000 ? -1.0f : 1.0f;
  if (exponent == 31) return fraction ? NAN : sign * INFINITY;
  return sign * (exponent ? std::ldexp(1024.0f + static_cast<float>(fraction), exponent - 25)
                          : std::ldexp(static_cast<float>(fraction), -24));
}

uint16_t to_float16(float value) {
  const uint16_t sign = std::signbit(value) ? 0x8000 : 0;
  if (std::isnan(value)) return sign | 0x7E00;
  const float size = std::fabs(value);
  if (size >= 65520.0f) return sign | 0x7C00;
  if (size < 0x1p-14f) return static_cast<uint16_t>(sign | static_cast<int>(std::nearbyint(std::ldexp(size, 24))));
  int exponent = 0;
  const float fraction = std::frexp(size, &exponent);                            // in [0.5, 1)
  const int steps = static_cast<int>(std::nearbyint(std::ldexp(fraction, 11)));  // 1024 .. 2048, which carries over
  return static_cast<uint16_t>(sign | (((exponent + 14) << 10) + (steps - 1024)));
}

template <typename Body>
void with_type(transom_dtype dtype, Body&& body) {
  switch (dtype) {
    case TRANSOM_BOOL:
    case TRANSOM_UINT8:
      return body(uint8_t{});
    case TRANSOM_INT8:
      return body(int8_t{});
    case TRANSOM_INT32:
      return body(int32_t{});
    case TRANSOM_INT64:
      return body(int64_t{});
    case TRANSOM_UINT32:
      return body(uint32_t{});
    case TRANSOM_FLOAT16:
    case TRANSOM_BFLOAT16:
      return body(uint16_t{});
    case TRANSOM_FLOAT32:
      return body(float{});
    case TRANSOM_FLOAT64:
      return body(double{});
  }
}

double rounded(transom_dtype dtype, double value) {
  switch (dtype) {
    case TRANSOM_FLOAT32:
      return static_cast<float>(value);
    case TRANSOM_BFLOAT16:
      return from_bfloat16(to_bfloat16(static_cast<float>(value)));
    case TRANSOM_FLOAT16:
      return from_float16(to_float16(static_cast<float>(value)));
    default:
      return value;
  }
}

int64_t wrapped(transom_dtype dtype, int64_t value) {
  switch (dtype) {
    case TRANSOM_BOOL:
      return value != 0;
    case TRANSOM_UINT8:
      return static_cast<uint8_t>(value);
    case TRANSOM_INT8:
      return static_cast<int8_t>(value);
    case TRANSOM_INT32:
      return static_cast<int32_t>(value);
    case TRANSOM_UINT32:
      return static_cast<uint32_t>(value);
    default:
      return value;
  }
}

// The ends of the integer type: what a float beyond them becomes.
std::pair<double, double> limits(transom_dtype dtype) {
  switch (dtype) {
    case TRANSOM_UINT8:
      return {0, 255};
    case TRANSOM_INT8:
      return {-128, 127};
    case TRANSOM_INT32:
      return {INT32_MIN, INT32_MAX};
    case TRANSOM_UINT32:
      return {0, UINT32_MAX};
    default:
      return {-0x1p63, 0x1.fffffffffffffp62};
  }
}

const HostTable& host_table() {
  static const HostTable& table = *[] {
    auto* made = new HostTable;
    add_host_elementwise(*made);
    add_host_movement(*made);
    add_host_indexing(*made);
    add_host_reductions(*made);
    add_host_products(*made);
    add_host_random(*made);
    return made;
  }();
  return table;
}

}  // namespace

HostArray::HostArray(Type t) : type(std::move(t)) {
  const auto count = static_cast<size_t>(type.count());
  if (floating()) real.resize(count);
  else integer.resize(count);
}

void HostArray::set(size_t i, double value) {
  if (floating()) {
    real[i] = rounded(type.dtype, value);
  } else if (type.dtype == TRANSOM_BOOL) {
    integer[i] = value != 0;
  } else {
    const auto [low, high] = limits(type.dtype);
    integer[i] = std::isnan(value) ? 0 : static_cast<int64_t>(std::trunc(std::min(std::max(value, low), high)));
  }
}

void HostArray::set(size_t i, int64_t value) {
  if (floating()) set(i, static_cast<double>(value));
  else integer[i] = wrapped(type.dtype, value);
}

void HostArray::take(size_t i, const HostArray& from, size_t j) {
  if (floating()) real[i] = from.real[j];
  else integer[i] = from.integer[j];
}

HostArray decode(const std::byte* bytes, const Type& type) {
  HostArray array(type);
  with_type(type.dtype, [&](auto sample) {
    using T = decltype(sample);
    const auto count = static_cast<size_t>(type.count());
    for (size_t i = 0; i < count; ++i) {
      T value;
      std::memcpy(&value, bytes + i * sizeof(T), sizeof(T));
      if constexpr (std::is_same_v<T, uint16_t>)
        array.real[i] = type.dtype == TRANSOM_BFLOAT16 ? from_bfloat16(value) : from_float16(value);
      else if constexpr (std::is_floating_point_v<T>) array.real[i] = value;
      else array.integer[i] = value;
    }
  });
  return array;
}

void encode(const HostArray& array, std::byte* bytes) {
  with_type(array.type.dtype, [&](auto sample) {
    using T = decltype(sample);
    const auto count = static_cast<size_t>(array.type.count());
    for (size_t i = 0; i < count; ++i) {
      T value;
      if constexpr (std::is_same_v<T, uint16_t>)
        value = array.type.dtype == TRANSOM_BFLOAT16 ? to_bfloat16(static_cast<float>(array.real[i]))
                                                     : to_float16(static_cast<float>(array.real[i]));
      else if constexpr (std::is_floating_point_v<T>) value = static_cast<T>(array.real[i]);
      else value = static_cast<T>(array.integer[i]);
      std::memcpy(bytes + i * sizeof(T), &value, sizeof(T));
    }
  });
}

Shape strides_of(const Shape& shape) {
  Shape strides(shape.size());
  int64_t step = 1;
  for (size_t i = shape.size(); i-- > 0;) {
    strides[i] = step;
    step *= shape[i];
  }
  return strides;
}

bool host_knows(std::string_view op) { return host_table().contains(op); }

std::vector<HostArray> interpret(const Node& node, const std::vector<const HostArray*>& inputs) {
  const auto found = host_table().find(node.op());
  if (found == host_table().end()) fail(TRANSOM_UNSUPPORTED, "{}: there is no such operation", node.place());
  std::vector<HostArray> outputs;
  for (const Type& type : node.outputs()) outputs.emplace_back(type);
  found->second(node, inputs, outputs);
  return outputs;
}

}  // namespace transom::hpu
