// SPDX-License-Identifier: Apache-2.0
#include "files/blocks/ggml/ggml_encoder.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/error.h"
#include "base/numbers/half.h"
#include "base/threads/threads.h"
#include "files/blocks/ggml/ggml_blocks.h"

namespace transom {
namespace {

using Bytes = uint8_t*;
using Numbers = const float*;

void put_half(Bytes at, float value) {
  const Float16 half(value);
  std::memcpy(at, &half.bits, 2);
}
float as_half(float value) { return Float16(value); }

float inverse(float x) { return x != 0 ? 1 / x : 0; }
int clamped(float step, int least, int most) {
  return static_cast<int>(std::clamp(step, static_cast<float>(least), static_cast<float>(most)));
}
// Rounded to the nearest; halves to even.
int nearest(float x, int least, int most) { return clamped(std::nearbyint(x), least, most); }

// ---- blocks of 32

float of_largest_magnitude(Numbers x, int n) {
  float found = 0;
  for (int i = 0; i < n; ++i)
    if (std::fabs(x[i]) > std::fabs(found)) found = x[i];
  return found;
}

void encode_q8_0(Numbers x, Bytes to) {
  const float d = std::fabs(of_largest_magnitude(x, 32)) / 127, id = inverse(d);
  put_half(to, d);
  for (int i = 0; i < 32; ++i) to[2 + i] = static_cast<uint8_t>(static_cast<int8_t>(std::roundf(x[i] * id)));
}

// Codes of 4 bits, or of 5 whose last bit stands apart: value l in the low, l + 16 in the high half of byte l.
void put_codes(const int* codes, int bits, Bytes to) {
  if (bits == 5) {
    uint32_t high = 0;
    for (int i = 0; i < 32; ++i) high |= static_cast<uint32_t>(codes[i] >> 4) << i;
    std::memcpy(to, &high, 4);
    to += 4;
  }
  for (int i = 0; i < 16; ++i) to[i] = static_cast<uint8_t>((codes[i] & 15) | (codes[i + 16] & 15) << 4);
}

template <int kBits>
void encode_signed(Numbers x, Bytes to) {  // Q4_0, Q5_0
  constexpr int kMiddle = 1 << (kBits - 1);
  const float d = of_largest_magnitude(x, 32) / -kMiddle, id = inverse(d);
  put_half(to, d);
  int codes[32];
  for (int i = 0; i < 32; ++i)
    codes[i] = std::min(2 * kMiddle - 1, static_cast<int>(x[i] * id + (static_cast<float>(kMiddle) + 0.5f)));
  put_codes(codes, kBits, to + 2);
}

template <int kBits>
void encode_with_minimum(Numbers x, Bytes to) {  // Q4_1, Q5_1
  constexpr int kLast = (1 << kBits) - 1;
  const auto [least, most] = std::minmax_element(x, x + 32);
  const float d = (*most - *least) / kLast, id = inverse(d);
  put_half(to, d), put_half(to + 2, *least);
  int codes[32];
  for (int i = 0; i < 32; ++i) codes[i] = std::min(kLast, static_cast<int>((x[i] - *least) * id + 0.5f));
  put_codes(codes, kBits, to + 4);
}

// ---- blocks of 256

struct Fit {
  float scale = 0, minimum = 0;  // x is about scale code - minimum
};

// The scale and the minimum (at least 0) of the least weighted squared error over some roundings of 32 numbers: for
// each, the best two are known in closed form.
Fit fit_with_minimum(Numbers x, int last) {
  constexpr int kCount = 32;
  float squares = 0, weights[kCount];
  for (int i = 0; i < kCount; ++i) squares += x[i] * x[i];
  const float mean = std::sqrt(squares / kCount);
  for (int i = 0; i < kCount; ++i) weights[i] = mean + std::fabs(x[i]);
  const auto [low, high] = std::minmax_element(x, x + kCount);
  const float least = std::min(*low, 0.0f), most = *high;
  if (most == least) return {0, -least};
  const auto error_of = [&](const Fit& fit) {
    double error = 0;
    for (int i = 0; i < kCount; ++i) {
      const int code = nearest((x[i] + fit.minimum) * inverse(fit.scale), 0, last);
      const float rest = x[i] - (fit.scale * static_cast<float>(code) - fit.minimum);
      error += static_cast<double>(weights[i]) * rest * rest;
    }
    return error;
  };
  Fit best{(most - least) / static_cast<float>(last), -least};
  double smallest = error_of(best);
  for (int step = 0; step <= 20; ++step) {
    const float factor = (static_cast<float>(last) - 1 + 0.1f * static_cast<float>(step)) / (most - least);
    double w = 0, l = 0, ll = 0, wx = 0, lx = 0;
    for (int i = 0; i < kCount; ++i) {
      const double code = nearest(factor * (x[i] - least), 0, last), weight = weights[i];
      w += weight, l += weight * code, ll += weight * code * code, wx += weight * x[i], lx += weight * code * x[i];
    }
    const double determinant = w * ll - l * l;
    if (!(determinant > 0)) continue;
    Fit fit{static_cast<float>((w * lx - wx * l) / determinant), -static_cast<float>((ll * wx - l * lx) / determinant)};
    if (fit.minimum < 0) fit = {static_cast<float>(lx / ll), 0};
    if (!(fit.scale > 0)) continue;
    if (const double error = error_of(fit); error < smallest) smallest = error, best = fit;
  }
  return best;
}

// Scales and minima of 8 groups in 6 bits each, 12 bytes.
void put_scales(const int* scales, const int* minima, Bytes to) {
  for (int g = 0; g < 4; ++g) {
    to[g] = static_cast<uint8_t>(scales[g] | (scales[g + 4] >> 4) << 6);
    to[g + 4] = static_cast<uint8_t>(minima[g] | (minima[g + 4] >> 4) << 6);
    to[g + 8] = static_cast<uint8_t>((scales[g + 4] & 15) | (minima[g + 4] & 15) << 4);
  }
}

template <int kBits>
void encode_k(Numbers x, Bytes to) {  // Q4_K, Q5_K
  constexpr int kLast = (1 << kBits) - 1;
  Fit fits[8];
  float scale = 0, minimum = 0;
  for (int g = 0; g < 8; ++g) {
    fits[g] = fit_with_minimum(x + 32 * g, kLast);
    scale = std::max(scale, fits[g].scale), minimum = std::max(minimum, fits[g].minimum);
  }
  const float d = as_half(scale / 63), dmin = as_half(minimum / 63);
  put_half(to, d), put_half(to + 2, dmin);
  int scales[8], minima[8];
  uint8_t codes[256];
  for (int g = 0; g < 8; ++g) {
    scales[g] = nearest(fits[g].scale * inverse(d), 0, 63);
    minima[g] = nearest(fits[g].minimum * inverse(dmin), 0, 63);
    const float own = d * static_cast<float>(scales[g]), below = dmin * static_cast<float>(minima[g]);
    for (int i = 0; i < 32; ++i)
      codes[32 * g + i] = static_cast<uint8_t>(nearest((x[32 * g + i] + below) * inverse(own), 0, kLast));
  }
  put_scales(scales, minima, to + 4);
  Bytes low = to + 16;
  if constexpr (kBits == 5) {
    for (int i = 0; i < 32; ++i) {
      low[i] = 0;
      for (int g = 0; g < 8; ++g) low[i] = static_cast<uint8_t>(low[i] | (codes[32 * g + i] >> 4) << g);
    }
    low += 32;
  }
  for (int c = 0; c < 4; ++c)
    for (int i = 0; i < 32; ++i)
      low[32 * c + i] = static_cast<uint8_t>((codes[64 * c + i] & 15) | (codes[64 * c + 32 + i] & 15) << 4);
}

// The scale of 16 numbers whose codes lie around 0, of the least squared error weighted by squares.
float fit_around_zero(Numbers x, int count, int middle) {
  const float largest = of_largest_magnitude(x, count);
  if (largest == 0) return 0;
  double best = -1;
  float scale = 0;
  for (int step = -9; step <= 9; ++step) {
    const float factor = -(static_cast<float>(middle) + 0.1f * static_cast<float>(step)) / largest;
    double lx = 0, ll = 0;
    for (int i = 0; i < count; ++i) {
      const double code = nearest(factor * x[i], -middle, middle - 1), weight = static_cast<double>(x[i]) * x[i];
      lx += weight * code * x[i], ll += weight * code * code;
    }
    // The error is a constant less lx^2 / ll.
    if (ll > 0 && lx * lx / ll > best) best = lx * lx / ll, scale = static_cast<float>(lx / ll);
  }
  return scale;
}

void encode_q6_k(Numbers x, Bytes to) {
  float scales[16], largest = 0;
  for (int g = 0; g < 16; ++g) {
    scales[g] = fit_around_zero(x + 16 * g, 16, 32);
    if (std::fabs(scales[g]) > std::fabs(largest)) largest = scales[g];
  }
  const float d = as_half(largest / -128);
  put_half(to + 208, d);
  uint8_t codes[256];
  for (int g = 0; g < 16; ++g) {
    const int scale = nearest(scales[g] * inverse(d), -128, 127);
    to[192 + g] = static_cast<uint8_t>(static_cast<int8_t>(scale));
    const float own = d * static_cast<float>(scale);
    for (int i = 0; i < 16; ++i)
      codes[16 * g + i] = static_cast<uint8_t>(nearest(x[16 * g + i] * inverse(own), -32, 31) + 32);
  }
  for (int half = 0; half < 2; ++half)
    for (int i = 0; i < 32; ++i) {
      const uint8_t *at = codes + 128 * half + i, a = at[0], b = at[32], c = at[64], e = at[96];
      to[64 * half + i] = static_cast<uint8_t>((a & 15) | (c & 15) << 4);
      to[64 * half + 32 + i] = static_cast<uint8_t>((b & 15) | (e & 15) << 4);
      to[128 + 32 * half + i] = static_cast<uint8_t>((a >> 4) | (b >> 4) << 2 | (c >> 4) << 4 | (e >> 4) << 6);
    }
}

void encode_f32(Numbers x, Bytes to) { std::memcpy(to, x, 4); }
void encode_f16(Numbers x, Bytes to) { put_half(to, *x); }
void encode_bf16(Numbers x, Bytes to) {
  const BFloat16 narrow(*x);
  std::memcpy(to, &narrow.bits, 2);
}

struct Encoder {
  const char* type;
  void (*encode)(Numbers, Bytes);
};
constexpr Encoder kEncoders[] = {{"F32", encode_f32},
                                 {"F16", encode_f16},
                                 {"BF16", encode_bf16},
                                 {"Q4_0", encode_signed<4>},
                                 {"Q4_1", encode_with_minimum<4>},
                                 {"Q5_0", encode_signed<5>},
                                 {"Q5_1", encode_with_minimum<5>},
                                 {"Q8_0", encode_q8_0},
                                 {"Q4_K", encode_k<4>},
                                 {"Q5_K", encode_k<5>},
                                 {"Q6_K", encode_q6_k}};

const Encoder* find_encoder(uint32_t type) {
  for (const Encoder& encoder : kEncoders)
    if (find_ggml_type(encoder.type)->id == type) return &encoder;
  return nullptr;
}

}  // namespace

bool can_encode_ggml(uint32_t type) { return find_encoder(type) != nullptr; }

std::vector<std::byte> encode_ggml(uint32_t type, const float* numbers, int64_t rows, int64_t depth) {
  const GgmlType& known = ggml_type(type, "encode_ggml");
  const Encoder* encoder = find_encoder(type);
  if (!encoder) fail("numbers cannot be written as {}", known.name);
  if (depth % known.values != 0)
    fail("rows of {} numbers are no whole blocks of {} ({})", depth, known.values, known.name);
  const int64_t blocks = depth / known.values;
  std::vector<std::byte> bytes(static_cast<size_t>(rows * blocks * known.bytes));
  parallel_for(static_cast<size_t>(rows), [&](size_t row) {
    const float* x = numbers + static_cast<int64_t>(row) * depth;
    for (int64_t i = 0; i < depth; ++i)
      if (!std::isfinite(x[i]))
        fail("row {}, number {} is {}: only finite numbers can be written as blocks", row, i, x[i]);
    auto* to = reinterpret_cast<uint8_t*>(bytes.data()) + static_cast<int64_t>(row) * blocks * known.bytes;
    for (int64_t b = 0; b < blocks; ++b) encoder->encode(x + b * known.values, to + b * known.bytes);
  });
  return bytes;
}

}  // namespace transom
