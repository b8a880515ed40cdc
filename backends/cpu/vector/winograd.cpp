// SPDX-License-Identifier: Apache-2.0
// The transforms of Winograd's convolution with windows of 3x3 in tiles of 2x2 results (Lavin and Gray, Fast Algorithms
// for Convolutional Neural Networks, 2015, section 4.1). Sums and differences only, channel by channel, which are exact
// for integers.
#include "cpu/vector/level.h"

namespace transom::cpu::TRANSOM_LEVEL {
namespace {

// d: the 16 places of x that a tile reads, row by row. v: B^T d B, its 16 places `step` elements apart.
void winograd_input(float* v, size_t step, const float* const* d, size_t n) {
  const float *d0 = d[0], *d1 = d[1], *d2 = d[2], *d3 = d[3], *d4 = d[4], *d5 = d[5], *d6 = d[6], *d7 = d[7],
              *d8 = d[8], *d9 = d[9], *d10 = d[10], *d11 = d[11], *d12 = d[12], *d13 = d[13], *d14 = d[14],
              *d15 = d[15];
  TRANSOM_SIMD
  for (size_t i = 0; i < n; ++i) {
    const float a0 = d0[i] - d8[i], a1 = d1[i] - d9[i], a2 = d2[i] - d10[i], a3 = d3[i] - d11[i];
    const float b0 = d4[i] + d8[i], b1 = d5[i] + d9[i], b2 = d6[i] + d10[i], b3 = d7[i] + d11[i];
    const float c0 = d8[i] - d4[i], c1 = d9[i] - d5[i], c2 = d10[i] - d6[i], c3 = d11[i] - d7[i];
    const float e0 = d4[i] - d12[i], e1 = d5[i] - d13[i], e2 = d6[i] - d14[i], e3 = d7[i] - d15[i];
    v[i] = a0 - a2, v[step + i] = a1 + a2, v[2 * step + i] = a2 - a1, v[3 * step + i] = a1 - a3;
    v[4 * step + i] = b0 - b2, v[5 * step + i] = b1 + b2, v[6 * step + i] = b2 - b1, v[7 * step + i] = b1 - b3;
    v[8 * step + i] = c0 - c2, v[9 * step + i] = c1 + c2, v[10 * step + i] = c2 - c1, v[11 * step + i] = c1 - c3;
    v[12 * step + i] = e0 - e2, v[13 * step + i] = e1 + e2, v[14 * step + i] = e2 - e1, v[15 * step + i] = e1 - e3;
  }
}

// m: the 16 products of a tile, `step` elements apart. y: the places of its 2x2 results, A^T m A.
template <typename Number, typename Result>
inline void transform_output(float* const* y, const Number* m, size_t step, size_t n, const Result& result) {
  float *y0 = y[0], *y1 = y[1], *y2 = y[2], *y3 = y[3];
  TRANSOM_SIMD
  for (size_t i = 0; i < n; ++i) {
    const Number* p = m + i;
    const Number b0 = p[4 * step], b1 = p[5 * step], b2 = p[6 * step], b3 = p[7 * step];
    const Number c0 = p[8 * step], c1 = p[9 * step], c2 = p[10 * step], c3 = p[11 * step];
    const Number s0 = p[0] + b0 + c0, s1 = p[step] + b1 + c1, s2 = p[2 * step] + b2 + c2, s3 = p[3 * step] + b3 + c3;
    const Number t0 = b0 - c0 - p[12 * step], t1 = b1 - c1 - p[13 * step], t2 = b2 - c2 - p[14 * step],
                 t3 = b3 - c3 - p[15 * step];
    y0[i] = result(s0 + s1 + s2);
    y1[i] = result(s1 - s2 - s3);
    y2[i] = result(t0 + t1 + t2);
    y3[i] = result(t1 - t2 - t3);
  }
}

void winograd_output(float* const* y, const float* m, size_t step, size_t n) {
  transform_output(y, m, step, n, [](float sum) { return sum; });
}

// Of sums modulo 2^32 that are four times the results.
void winograd_output_integers(float* const* y, const int32_t* m, size_t step, size_t n) {
  transform_output(y, reinterpret_cast<const uint32_t*>(m), step, n,
                   [](uint32_t sum) { return static_cast<float>(static_cast<int32_t>(sum) >> 2); });
}

// winograd_input of bytes, whose transforms are whole numbers of 16 bits: (byte ^ flip) - zero.
void winograd_input_bytes(int16_t* v, size_t step, const uint8_t* const* d, uint8_t flip, int16_t zero, size_t n) {
  const uint8_t *d0 = d[0], *d1 = d[1], *d2 = d[2], *d3 = d[3], *d4 = d[4], *d5 = d[5], *d6 = d[6], *d7 = d[7],
                *d8 = d[8], *d9 = d[9], *d10 = d[10], *d11 = d[11], *d12 = d[12], *d13 = d[13], *d14 = d[14],
                *d15 = d[15];
  const auto word = [flip](uint8_t byte) { return static_cast<int16_t>(static_cast<uint8_t>(byte ^ flip)); };
  const auto minus = [](int16_t x, int16_t y) { return static_cast<int16_t>(x - y); };
  const auto plus = [](int16_t x, int16_t y) { return static_cast<int16_t>(x + y); };
  const auto surplus = static_cast<int16_t>(4 * zero);  // differences have none
  TRANSOM_SIMD
  for (size_t i = 0; i < n; ++i) {
    const int16_t x4 = word(d4[i]), x5 = word(d5[i]), x6 = word(d6[i]), x7 = word(d7[i]);
    const int16_t x8 = word(d8[i]), x9 = word(d9[i]), x10 = word(d10[i]), x11 = word(d11[i]);
    const int16_t a0 = minus(word(d0[i]), x8), a1 = minus(word(d1[i]), x9), a2 = minus(word(d2[i]), x10),
                  a3 = minus(word(d3[i]), x11);
    const int16_t b0 = plus(x4, x8), b1 = plus(x5, x9), b2 = plus(x6, x10), b3 = plus(x7, x11);
    const int16_t c0 = minus(x8, x4), c1 = minus(x9, x5), c2 = minus(x10, x6), c3 = minus(x11, x7);
    const int16_t e0 = minus(x4, word(d12[i])), e1 = minus(x5, word(d13[i])), e2 = minus(x6, word(d14[i])),
                  e3 = minus(x7, word(d15[i]));
    v[i] = minus(a0, a2), v[step + i] = plus(a1, a2), v[2 * step + i] = minus(a2, a1), v[3 * step + i] = minus(a1, a3);
    v[4 * step + i] = minus(b0, b2), v[5 * step + i] = minus(plus(b1, b2), surplus);
    v[6 * step + i] = minus(b2, b1), v[7 * step + i] = minus(b1, b3);
    v[8 * step + i] = minus(c0, c2), v[9 * step + i] = plus(c1, c2), v[10 * step + i] = minus(c2, c1);
    v[11 * step + i] = minus(c1, c3);
    v[12 * step + i] = minus(e0, e2), v[13 * step + i] = plus(e1, e2), v[14 * step + i] = minus(e2, e1);
    v[15 * step + i] = minus(e1, e3);
  }
}

}  // namespace

void fill_winograd(VectorKernels& kernels) {
  kernels.winograd_input = winograd_input;
  kernels.winograd_output = winograd_output;
  kernels.winograd_input_bytes = winograd_input_bytes;
  kernels.winograd_output_integers = winograd_output_integers;
}

}  // namespace transom::cpu::TRANSOM_LEVEL
