// SPDX-License-Identifier: Apache-2.0
// A packed matrix for tests.
#pragma once

#include <string>
#include <vector>

#include "backends/harness.h"
#include "base/numbers/float8.h"

namespace transom::backend_test {

// Codes of [N, K] as src/graph/ops/products/packed_matrix.h lays them out, with scales and perhaps minima or values.
struct PackedWeight {
  int64_t bits, rows, depth, group;
  bool minima, values;
  bool float8 = false;  // codes are f8_e4m3fn
  Tensor bytes{TRANSOM_UINT8, {}, {}}, scales{TRANSOM_FLOAT16, {}, {}}, least{TRANSOM_FLOAT16, {}, {}},
      table{TRANSOM_FLOAT32, {}, {}};

  static int64_t up(int64_t a, int64_t b) { return (a + b - 1) / b; }
  PackedWeight(int64_t bits, int64_t rows, int64_t depth, int64_t group, bool minima, bool values)
      : bits(bits), rows(rows), depth(depth), group(group), minima(minima), values(values) {
    const int64_t n = up(rows, 16), k = up(depth, 32), sub = bits == 4 ? 4 : 8;
    bytes.shape = {n, k, sub, 16, 4};
    for (int64_t i = 0; i < n * k * sub * 64; ++i) bytes.values.push_back(static_cast<double>(i * 151 % 256));
    scales = numbers(TRANSOM_FLOAT16, {n, up(depth, group), 16}, -0.5, 0.5, 4);
    least = numbers(TRANSOM_FLOAT16, {n, up(depth, group), 16}, -1, 1, 5);
    table = numbers(TRANSOM_FLOAT32, {bits == 4 ? 16 : 256}, -2, 2, 6);
  }
  // With codes of all numbers, and with NaN where codes count nothing.
  void make_float8() {
    float8 = true;
    for (double& byte : bytes.values)
      if (static_cast<int>(byte) % 128 == 127) byte = 0;
    for (int64_t n = 0; n < up(rows, 16) * 16; ++n)
      for (int64_t k = depth; k < up(depth, 32) * 32; ++k)
        bytes.values[static_cast<size_t>((((n / 16 * up(depth, 32) + k / 32) * 8 + k % 32 / 4) * 16 + n % 16) * 4 +
                                         k % 4)] = 127;
  }
  double at(int64_t row, int64_t k) const {
    const int64_t sub = bits == 4 ? 4 : 8, s = k % 32 / 4, block = row / 16, inside = row % 16;
    const auto byte = static_cast<int64_t>(bytes.values[static_cast<size_t>(
        (((block * up(depth, 32) + k / 32) * sub + s % sub) * 16 + inside) * 4 + k % 4)]);
    const int64_t code = bits == 8 ? byte : s < 4 ? byte % 16 : byte / 16;
    const auto of_group = static_cast<size_t>((block * up(depth, group) + k / group) * 16 + inside);
    const double scale = scales.values[of_group];
    if (float8) return scale * static_cast<double>(float8_values()[static_cast<size_t>(code)]);
    if (values) return table.values[static_cast<size_t>(code)] * scale;
    if (minima) return static_cast<double>(code) * scale + least.values[of_group];
    return static_cast<double>(code - (bits == 4 ? 8 : 128)) * scale;
  }
  std::vector<Tensor> parts(const Tensor& x) const {
    std::vector<Tensor> all{x, bytes, scales};
    if (minima) all.push_back(least);
    if (values) all.push_back(table);
    return all;
  }
  std::vector<Attribute> attributes(bool bias, const std::string& activations = "float32") const {
    return {{"bits", bits},     {"rows", rows},     {"depth", depth}, {"group", group},
            {"minima", minima}, {"values", values}, {"bias", bias},   {"activations", activations}};
  }
};

}  // namespace transom::backend_test
