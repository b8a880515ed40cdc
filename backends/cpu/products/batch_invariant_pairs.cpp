// SPDX-License-Identifier: Apache-2.0
// Each sum goes through depth pair by pair, however many rows there are: blocks of rows do not show.
#include "cpu/products/batch_invariant_pairs.h"

#include <algorithm>

#include "cpu/device/memory.h"
#include "cpu/device/threads.h"
#include "cpu/kernels/scratch.h"
#include "cpu/kernels/widening.h"
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

  PairProduct(const ProductPlan& plan, const PairRows& rows)
      : table(rows),
        m(plan.m),
        n(plan.n),
        k(plan.k),
        b_row(plan.b.row),
        b_column(plan.b.column),
        width(static_cast<int64_t>(rows.width)),
        panels((n + width - 1) / width),
        output(plan.output) {}

  size_t panel_bytes() const { return static_cast<size_t>(panels * width * k) * sizeof(uint16_t); }

  void pack(const uint16_t* b, uint16_t* to) const {
    parallel_ranges(panels, std::max<int64_t>((1 << 14) / (k * width), 1), [&](int64_t begin, int64_t end) {
      for (int64_t panel = begin; panel < end; ++panel) pack_panel(b, panel, to + panel * k * width);
    });
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

  void run(const uint16_t* a, const uint16_t* packed, const float* shift, std::byte* c) const {
    const int64_t row_chunks = (m + kRows - 1) / kRows, threads = static_cast<int64_t>(thread_count());
    const int64_t work = width * k * std::min(m, kRows);
    const int64_t parts = std::clamp<int64_t>(panels * work >> 17, 1, std::min(panels, threads == 1 ? 1 : 4 * threads));
    parallel_for(static_cast<size_t>(parts * row_chunks), [&](size_t task) {
      const int64_t part = static_cast<int64_t>(task) % parts, row = static_cast<int64_t>(task) / parts * kRows;
      for (int64_t panel = panels * part / parts; panel < panels * (part + 1) / parts; ++panel)
        multiply(a, packed, shift, c, row, std::min(kRows, m - row), panel);
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
  const std::optional<Node::Origin> weight = node.frozen_origin(1);
  if (!rows || plan.a.dtype != TRANSOM_BFLOAT16 || plan.k % 2 != 0 || (weight && weight->dtype != TRANSOM_BFLOAT16))
    return std::nullopt;
  const PairProduct product(plan, *rows);
  const size_t bias_bytes = plan.bias ? aligned(static_cast<size_t>(plan.n) * sizeof(float)) : 0;
  const size_t own = weight ? 0 : aligned(product.panel_bytes());
  Kernel kernel{fmt::format("rows apart, pairs of bf16{}", weight ? ", packed" : ""),
                [=](const Arguments& arguments) {
                  const float* shift = nullptr;
                  if (plan.bias) {
                    auto* wide = reinterpret_cast<float*>(arguments.scratch);
                    widen(TRANSOM_BFLOAT16, arguments.inputs[2], wide, plan.n);
                    shift = wide;
                  }
                  const auto* b = reinterpret_cast<const uint16_t*>(arguments.inputs[1]);
                  auto* packed = reinterpret_cast<uint16_t*>(arguments.scratch + bias_bytes);
                  std::shared_ptr<PackedWeight> kept;
                  if (weight) {
                    kept = packed_copy(*arguments.input_buffers[1], arguments.input_offsets[1],
                                       {-3, product.k, product.n, product.b_row, product.b_column},
                                       [&]() -> std::shared_ptr<PackedWeight> {
                                         auto made = std::make_shared<PairPanels>();
                                         made->values = allocate_packed(product.panel_bytes());
                                         product.pack(b, reinterpret_cast<uint16_t*>(made->values.get()));
                                         return made;
                                       });
                    packed = reinterpret_cast<uint16_t*>(static_cast<const PairPanels&>(*kept).values.get());
                  } else {
                    product.pack(b, packed);
                  }
                  product.run(reinterpret_cast<const uint16_t*>(arguments.inputs[0]), packed, shift,
                              arguments.outputs[0]);
                },
                bias_bytes + own};
  if (weight) kernel.instead.emplace_back(1, weight->value);
  return kernel;
}

}  // namespace transom::cpu
