// SPDX-License-Identifier: Apache-2.0
// dy w from the codes of w: 32 of its columns are unpacked for all rows of dy at once, so that the whole of w is never
// in memory. A row of dy gives the same bits whatever other rows there are.
#include <algorithm>

#include "cpu/device/threads.h"
#include "cpu/kernels/scratch.h"
#include "cpu/kernels/widening.h"
#include "cpu/products/quantized/code_layout.h"

namespace transom::cpu {
namespace {

struct GradientPlan : CodeLayout {
  int64_t lines;  // of 16 rows of dy

  explicit GradientPlan(const Node& node) : CodeLayout(node), lines((m + kLanes - 1) / kLanes) {}

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
      kernels.unpack(numbers, panel(arguments, index, block, 1, std::min(group, kInputs)));
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
