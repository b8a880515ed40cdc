// SPDX-License-Identifier: Apache-2.0
// Each sum goes through depth pair by pair, however many rows there are: blocks of rows do not show.
#include "cpu/products/batch_invariant_pairs.h"

#include <algorithm>

#include "cpu/kernels/packed_weight.h"
#include "cpu/kernels/scratch.h"
#include "cpu/kernels/widening.h"
#include "cpu/products/product_parts.h"
#include "cpu/vector/products/pair_rows.h"

namespace transom::cpu {
namespace {

constexpr int64_t kRows = 96;  // of a, that stay in the second cache while the panels go by

struct PairPanels : PackedWeight {
  PackedMemory values;
};

struct PairProduct {
  const PairRows& table;
  int64_t m, n, k, b_row, b_column, width, panels;
  transom_dtype output;
  bool bias;

  PairProduct(const ProductPlan& plan, const PairRows& rows)
      : table(rows),
        m(plan.m),
        n(plan.n),
        k(plan.k),
        b_row(plan.b.row),
        b_column(plan.b.column),
        width(static_cast<int64_t>(rows.width)),
        panels((n + width - 1) / width),
        output(plan.output),
        bias(plan.bias) {}

  std::vector<int64_t> key() const { return {-3, k, n, b_row, b_column}; }

  std::shared_ptr<PairPanels> pack(const std::byte* b) const {
    auto made = std::make_shared<PairPanels>();
    made->values = allocate_packed(static_cast<size_t>(panels * width * k) * sizeof(uint16_t));
    auto* to = reinterpret_cast<uint16_t*>(made->values.get());
    parallel_ranges(panels, std::max<int64_t>((1 << 14) / (k * width), 1), [&](int64_t begin, int64_t end) {
      for (int64_t panel = begin; panel < end; ++panel)
        pack_panel(reinterpret_cast<const uint16_t*>(b), panel, to + panel * k * width);
    });
    return made;
  }

  // [k / 2, width, 2]
  void pack_panel(const uint16_t* b, int64_t panel, uint16_t* to) const {
    const int64_t first = panel * width, there = std::min(width, n - first);
    // A line of the first cache of each column at a time.
    constexpr int64_t kLine = 32;
    for (int64_t line = 0; line < k; line += kLine)
      for (int64_t j = 0; j < width; ++j)
        for (int64_t i = line; i < std::min(line + kLine, k); ++i)
          to[i / 2 * 2 * width + 2 * j + i % 2] = j < there ? b[i * b_row + (first + j) * b_column] : uint16_t{0};
  }

  size_t scratch_bytes() const { return bias ? aligned(static_cast<size_t>(n) * sizeof(float)) : 0; }

  void run(const Arguments& arguments, const PairPanels& weight) const {
    const auto* a = reinterpret_cast<const uint16_t*>(arguments.inputs[0]);
    const auto* packed = reinterpret_cast<const uint16_t*>(weight.values.get());
    auto* shift = bias ? reinterpret_cast<float*>(arguments.scratch) : nullptr;
    if (bias) widen(TRANSOM_BFLOAT16, arguments.inputs[2], shift, n);
    for_parts_of_product(m, kRows, panels, width * k * std::min(m, kRows), 1 << 17,
                         [&](int64_t row, int64_t begin, int64_t end) {
                           for (int64_t panel = begin; panel < end; ++panel)
                             multiply(a, packed, shift, arguments.outputs[0], row, std::min(kRows, m - row), panel);
                         });
  }

  void multiply(const uint16_t* a, const uint16_t* packed, const float* shift, std::byte* c, int64_t row, int64_t rows,
                int64_t panel) const {
    Scratch scratch(Scratch::bytes_of<float>(rows * width));
    auto* sums = scratch.take<float>(rows * width);
    // Blocks of much the same size: of a row or two that are left over, sums are too few to hide the latency.
    const auto most = static_cast<int64_t>(table.most_rows);
    const int64_t blocks = (rows + most - 1) / most;
    for (int64_t block = 0; block < blocks; ++block) {
      const int64_t begin = rows * block / blocks, end = rows * (block + 1) / blocks;
      table.multiply(sums + begin * width, a + (row + begin) * k, static_cast<size_t>(k), packed + panel * k * width,
                     static_cast<size_t>(end - begin), static_cast<size_t>(k / 2));
    }
    const int64_t first = panel * width, there = std::min(width, n - first);
    for (int64_t i = 0; i < rows; ++i)
      store_sums(sums + i * width, shift ? shift + first : nullptr, there, output,
                 c + static_cast<size_t>((row + i) * n + first) * element_size(output));
  }
};

}  // namespace

std::optional<Kernel> batch_invariant_pairs(const Node& node, const ProductPlan& plan) {
  const PairRows* rows = pair_rows();
  // Of a weight that is kept in another type the cast is not made.
  const std::optional<Node::Origin> weight = node.frozen_origin(1);
  if (!rows || plan.a.dtype != TRANSOM_BFLOAT16 || plan.k % 2 != 0 || (weight && weight->dtype != TRANSOM_BFLOAT16))
    return std::nullopt;
  auto product = std::make_shared<const PairProduct>(plan, *rows);
  const size_t bytes = product->scratch_bytes();
  Kernel kernel = packed_kernel("rows apart, pairs of bf16", std::move(product), node.frozen(1));
  kernel.scratch_bytes = bytes;
  return kernel;
}

}  // namespace transom::cpu
