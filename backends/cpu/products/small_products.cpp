// SPDX-License-Identifier: Apache-2.0
// Batches of small f32 products, as of pairs of features (DLRM: 27x64 by 64x27, thousands of them): by the panels of
// attention, one product after the other in the first cache. The library reaches 10 GFLOP/s there.
#include "cpu/products/small_products.h"

#include "cpu/device/threads.h"
#include "cpu/kernels/scratch.h"
#include "cpu/vector/kernels.h"

namespace transom::cpu {
namespace {

constexpr int64_t kMostWork = 1 << 17;     // multiplications of one product
constexpr int64_t kLeastOfTask = 1 << 18;  // of a task of the threads
constexpr int64_t kFewestProducts = 8, kMostExtent = 512;

bool applies(const ProductPlan& plan) {
  const auto fits = [](int64_t extent) { return extent <= kMostExtent; };
  return plan.batch >= kFewestProducts && plan.a.dtype == TRANSOM_FLOAT32 && plan.output == TRANSOM_FLOAT32 &&
         !plan.bias && !plan.a.rearrange && !plan.b.rearrange && plan.a.column == 1 &&
         (plan.b.column == 1 || plan.b.row == 1) && fits(plan.m) && fits(plan.n) && fits(plan.k) &&
         plan.m * plan.n * plan.k <= kMostWork;
}

void run(const ProductPlan& plan, const float* a, const float* b, float* c) {
  const PanelProducts& panels = vector_kernels().panels_f32;
  const auto width = static_cast<int64_t>(panels.width);
  const int64_t c_row = (plan.n + width - 1) / width * width;
  const bool whole = c_row == plan.n;  // panels end where the rows of the result do
  const auto m = static_cast<size_t>(plan.m), n = static_cast<size_t>(plan.n), k = static_cast<size_t>(plan.k);
  const int64_t together = std::max<int64_t>(kLeastOfTask / (plan.m * plan.n * plan.k), 1);
  parallel_ranges(plan.batch, together, [&](int64_t begin, int64_t end) {
    Scratch scratch(Scratch::bytes_of<uint32_t>(c_row * plan.k) + Scratch::bytes_of<float>(whole ? 0 : plan.m * c_row));
    auto* packed = scratch.take<uint32_t>(c_row * plan.k);
    auto* sums = scratch.take<float>(whole ? 0 : plan.m * c_row);
    for (int64_t i = begin; i < end; ++i) {
      const float* right = b + offset_of(i, plan.batch_shape, plan.b.batch_strides);
      if (plan.b.column == 1) panels.pack(packed, right, static_cast<size_t>(plan.b.row), k, n);
      else panels.pack_transposed(packed, right, static_cast<size_t>(plan.b.column), k, n);
      float* target = c + i * plan.m * plan.n;
      float* made = whole ? target : sums;
      panels.multiply(made, static_cast<size_t>(c_row), a + offset_of(i, plan.batch_shape, plan.a.batch_strides),
                      static_cast<size_t>(plan.a.row), packed, m, n, k);
      for (int64_t row = 0; !whole && row < plan.m; ++row)
        std::copy_n(sums + row * c_row, plan.n, target + row * plan.n);
    }
  });
}

}  // namespace

std::optional<Kernel> small_products_kernel(const ProductPlan& plan) {
  if (!applies(plan)) return std::nullopt;
  return Kernel{"small products", [plan](const Arguments& arguments) {
                  run(plan, arguments.input<float>(0), arguments.input<float>(1), arguments.output<float>());
                }};
}

}  // namespace transom::cpu
