// SPDX-License-Identifier: Apache-2.0
// A few rows of bf16 with a large matrix in the library's own layout, as a step of decoding has them: the time is that
// of reading the weight.
#include "cpu/products/few_pair_rows.h"

#include "cpu/device/threads.h"
#include "cpu/kernels/widening.h"
#include "cpu/vector/products/pair_rows.h"

namespace transom::cpu {
namespace {

using dnnl::memory;

constexpr int64_t kDepthBlock = 32;            // of the layout: 16 pairs
constexpr int64_t kLeastOfTask = 1 << 17;      // weights
constexpr int64_t kMostRows = 8, kWidth = 64;  // room for any table

}  // namespace

bool may_multiply_few_pair_rows(const ProductPlan& plan) {
  const PairRows* rows = pair_rows();
  return rows && rows->width <= kWidth && plan.m <= static_cast<int64_t>(rows->most_rows) && plan.m <= kMostRows &&
         plan.batch == 1 && plan.a.dtype == TRANSOM_BFLOAT16 && plan.a.column == 1 && !plan.a.rearrange &&
         plan.k % 2 == 0 && (plan.output == TRANSOM_BFLOAT16 || plan.output == TRANSOM_FLOAT32);
}

bool multiplies_few_pair_rows(const ProductPlan& plan, const memory::desc& layout) {
  return may_multiply_few_pair_rows(plan) &&
         layout == memory::desc({plan.k, plan.n}, memory::data_type::bf16, memory::format_tag::BA16a64b2a);
}

void multiply_few_pair_rows(const ProductPlan& plan, const std::byte* a, const std::byte* packed, const std::byte* bias,
                            std::byte* c) {
  const PairRows& rows = *pair_rows();
  const auto width = static_cast<int64_t>(rows.width);
  const int64_t panels = (plan.n + width - 1) / width;
  const int64_t panel = (plan.k + kDepthBlock - 1) / kDepthBlock * kDepthBlock * width;
  parallel_ranges(panels, std::max<int64_t>(kLeastOfTask / panel, 1), [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      float sums[kMostRows * kWidth], shift[kWidth];
      const int64_t first = i * width, count = std::min(width, plan.n - first);
      rows.multiply(sums, rows.width, reinterpret_cast<const uint16_t*>(a), static_cast<size_t>(plan.a.row),
                    reinterpret_cast<const uint16_t*>(packed) + i * panel, nullptr, static_cast<size_t>(plan.m),
                    static_cast<size_t>(plan.k / 2));
      if (bias) load_function(TRANSOM_BFLOAT16)(shift, bias + first * 2, nullptr, nullptr, static_cast<size_t>(count));
      for (int64_t m = 0; m < plan.m; ++m)
        store_sums(sums + m * width, bias ? shift : nullptr, count, plan.output,
                   c + static_cast<size_t>(m * plan.n + first) * element_size(plan.output));
    }
  });
}

}  // namespace transom::cpu
