// SPDX-License-Identifier: Apache-2.0
// The transforms of Winograd's convolution with windows of 3x3 in tiles of 2x2 results (Lavin and Gray, Fast Algorithms
// for Convolutional Neural Networks, 2015, section 4.1). Sums and differences only, channel by channel.
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
void winograd_output(float* const* y, const float* m, size_t step, size_t n) {
  float *y0 = y[0], *y1 = y[1], *y2 = y[2], *y3 = y[3];
  TRANSOM_SIMD
  for (size_t i = 0; i < n; ++i) {
    const float* p = m + i;
    const float b0 = p[4 * step], b1 = p[5 * step], b2 = p[6 * step], b3 = p[7 * step];
    const float c0 = p[8 * step], c1 = p[9 * step], c2 = p[10 * step], c3 = p[11 * step];
    const float s0 = p[0] + b0 + c0, s1 = p[step] + b1 + c1, s2 = p[2 * step] + b2 + c2, s3 = p[3 * step] + b3 + c3;
    const float t0 = b0 - c0 - p[12 * step], t1 = b1 - c1 - p[13 * step], t2 = b2 - c2 - p[14 * step],
                t3 = b3 - c3 - p[15 * step];
    y0[i] = s0 + s1 + s2;
    y1[i] = s1 - s2 - s3;
    y2[i] = t0 + t1 + t2;
    y3[i] = t1 - t2 - t3;
  }
}

}  // namespace

void fill_winograd(VectorKernels& kernels) {
  kernels.winograd_input = winograd_input;
  kernels.winograd_output = winograd_output;
}

}  // namespace transom::cpu::TRANSOM_LEVEL
