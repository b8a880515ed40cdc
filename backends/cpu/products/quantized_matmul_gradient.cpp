// SPDX-License-Identifier: Apache-2.0
// dy w from the codes of w: 32 of its columns are unpacked for all rows of dy at once, so that the whole of w is never
// in memory. A row of dy gives the same bits whatever other rows there are.
#include <algorithm>

#include "cpu/device/threads.h"
#include "cpu/kernels/scratch.h"
#include "cpu/kernels/widening.h"
#include "cpu/products/quantized_matmul.h"
#include "cpu/vector/code_products.h"

namespace transom::cpu {
namespace {

constexpr int64_t kLanes = 16, kInputs = 32;

struct GradientPlan {
  int64_t m, n, k, group, blocks, groups, panels, lines;
  int bits;
  bool minima, values, half_scales;
  transom_dtype dtype;

  explicit GradientPlan(const Node& node) {
    const Type& in = node.input(0);
    dtype = in.dtype;
    bits = static_cast<int>(node.integer("bits"));
    n = node.integer("rows"), k = node.integer("depth"), group = node.integer("group");
    m = product(in.shape, 0, in.rank() - 1);
    minima = node.integer("minima") != 0, values = node.integer("values") != 0;
    half_scales = node.input(2).dtype == TRANSOM_FLOAT16;
    blocks = (k + kInputs - 1) / kInputs, groups = (k + group - 1) / group;
    panels = (n + kLanes - 1) / kLanes, lines = (m + kLanes - 1) / kLanes;
  }

  // Block `block` of panel `index`, as a matrix of its own.
  CodePanel part(const Arguments& arguments, int64_t index, int64_t block) const {
    const int64_t block_bytes = bits == 8 ? 512 : 256, number_bytes = half_scales ? 2 : 4;
    const int64_t scale = (index * groups + block * kInputs / group) * kLanes * number_bytes;
    size_t next = 3;
    const std::byte* least = minima ? arguments.inputs[next++] + scale : nullptr;
    const float* table = values ? arguments.input<float>(next++) : nullptr;
    return {.codes = arguments.input<uint8_t>(1) + (index * blocks + block) * block_bytes,
            .scales = arguments.inputs[2] + scale,
            .minima = least,
            .values = table,
            .bits = bits,
            .half = half_scales,
            .blocks = 1,
            .group = static_cast<size_t>(std::min(group, kInputs))};
  }

  size_t wide_bytes() const {
    return dtype == TRANSOM_FLOAT32 ? 0 : aligned(static_cast<size_t>(m * n) * sizeof(float));
  }
  size_t scratch_bytes() const {
    return wide_bytes() + aligned(static_cast<size_t>(lines * kLanes * n) * sizeof(float));
  }

  void run(const Arguments& arguments) const {
    const float* dy = arguments.input<float>(0);
    if (dtype != TRANSOM_FLOAT32) {
      widen(dtype, arguments.inputs[0], reinterpret_cast<float*>(arguments.scratch), m * n);
      dy = reinterpret_cast<float*>(arguments.scratch);
    }
    // dy with 16 rows side by side: [lines, n, 16].
    auto* turned = reinterpret_cast<float*>(arguments.scratch + wide_bytes());
    parallel_ranges(lines, std::max<int64_t>((1 << 14) / (n * kLanes), 1), [&](int64_t begin, int64_t end) {
      for (int64_t line = begin; line < end; ++line)
        for (int64_t lane = 0; lane < kLanes; ++lane) {
          const int64_t row = line * kLanes + lane;
          float* to = turned + line * n * kLanes + lane;
          for (int64_t j = 0; j < n; ++j) to[j * kLanes] = row < m ? dy[row * n + j] : 0;
        }
    });
    const int64_t work = kInputs * n * std::max<int64_t>(m, 1);
    parallel_ranges(blocks, std::max<int64_t>((1 << 16) / work, 1), [&](int64_t begin, int64_t end) {
      for (int64_t block = begin; block < end; ++block) columns(arguments, turned, block);
    });
  }

  // The columns of one block.
  void columns(const Arguments& arguments, const float* turned, int64_t block) const {
    const CodeProducts& kernels = code_products();
    const int64_t stride = panels * kLanes, width = std::min(kInputs, k - block * kInputs);
    Scratch scratch(2 * Scratch::bytes_of<float>(kInputs * kLanes) + Scratch::bytes_of<float>(kInputs * stride));
    auto* numbers = scratch.take<float>(kInputs * kLanes);
    auto* y = scratch.take<float>(kInputs * kLanes);
    auto* weight = scratch.take<float>(kInputs * stride);  // [32 columns, N]
    for (int64_t index = 0; index < panels; ++index) {
      kernels.unpack(numbers, part(arguments, index, block));
      for (int64_t i = 0; i < kInputs; ++i)
        std::copy_n(numbers + i * kLanes, kLanes, weight + i * stride + index * kLanes);
    }
    for (int64_t line = 0; line < lines; ++line) {
      kernels.multiply(y, weight, static_cast<size_t>(stride), turned + line * n * kLanes, kInputs,
                       static_cast<size_t>(n));
      for (int64_t lane = 0; lane < std::min(kLanes, m - line * kLanes); ++lane) {
        float row[kInputs];
        for (int64_t i = 0; i < kInputs; ++i) row[i] = y[i * kLanes + lane];
        const int64_t at = (line * kLanes + lane) * k + block * kInputs;
        if (dtype == TRANSOM_FLOAT32) std::copy_n(row, width, arguments.output<float>() + at);
        else store_function(dtype)(arguments.outputs[0] + at * 2, row, nullptr, nullptr, static_cast<size_t>(width));
      }
    }
  }
};

}  // namespace

Kernel make_quantized_matmul_gradient(const Node& node) {
  auto plan = std::make_shared<const GradientPlan>(node);
  if (plan->m * plan->k == 0) return {"nothing", [](const Arguments&) {}};
  return {fmt::format("codes of {} bits, unpacked by columns, {}", plan->bits, code_products().name),
          [plan](const Arguments& arguments) { plan->run(arguments); }, plan->scratch_bytes()};
}

}  // namespace transom::cpu
