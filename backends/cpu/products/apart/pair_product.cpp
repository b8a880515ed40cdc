// SPDX-License-Identifier: Apache-2.0
// Each sum goes through depth pair by pair, however many rows there are: blocks of rows do not show.
#include "cpu/products/apart/pair_product.h"

#include <algorithm>
#include <vector>

#include "cpu/kernels/scratch.h"
#include "cpu/kernels/widening.h"
#include "cpu/products/apart/apart_kernel.h"
#include "cpu/products/panel_packing.h"
#include "cpu/products/product_parts.h"
#include "cpu/vector/products/pair_rows.h"

namespace transom::cpu {
namespace {

constexpr int64_t kMostRows = 8, kMostWidth = 64;  // room for any table

struct PairPanels : PackedWeight {
  PackedMemory values;
};

class PairProduct {
 public:
  // `stored`: the type that b is packed from, where it is not bf16.
  PairProduct(const ProductPlan& plan, const PairRows& table, transom_dtype stored)
      : table_(table),
        stored_(stored),
        m_(plan.m),
        n_(plan.n),
        k_(plan.k),
        b_row_(plan.b.row),
        b_column_(plan.b.column),
        width_(static_cast<int64_t>(table.width)),
        panels_((n_ + width_ - 1) / width_),
        output_(plan.output),
        bias_(plan.bias) {}

  std::vector<int64_t> key() const { return {-3, k_, n_, b_row_, b_column_, stored_}; }

  std::shared_ptr<PairPanels> pack(const std::byte* b) const {
    auto made = std::make_shared<PairPanels>();
    made->values = allocate_packed(static_cast<size_t>(panels_ * panel_numbers()) * sizeof(uint16_t));
    auto* to = reinterpret_cast<uint16_t*>(made->values.get());
    for_panels(panels_, panel_numbers(), [&](int64_t panel) { pack_panel(b, panel, to + panel * panel_numbers()); });
    return made;
  }

  size_t scratch_bytes() const { return bias_ ? aligned(static_cast<size_t>(n_) * sizeof(float)) : 0; }

  void run(const Arguments& arguments, const PairPanels& weight) const {
    const auto* packed = reinterpret_cast<const uint16_t*>(weight.values.get());
    const float* bias = wide_bias(arguments);
    for_parts_of_product(m_, panels_, panel_numbers(), 1 << 17,
                         [&](int64_t row, int64_t rows, int64_t begin, int64_t end) {
                           for (int64_t panel = begin; panel < end; ++panel)
                             multiply(arguments, packed + panel * panel_numbers(), bias, row, rows, panel);
                         });
  }

  // With b as it is: each panel is packed where it is multiplied.
  void run(const Arguments& arguments) const {
    const float* bias = wide_bias(arguments);
    for_panels(panels_, panel_numbers(), [&](int64_t panel) {
      auto* own = reinterpret_cast<uint16_t*>(
          thread_scratch(static_cast<size_t>(panel_numbers()) * sizeof(uint16_t), ScratchUse::kPanels));
      pack_panel(arguments.inputs[1], panel, own);
      for_even_chunks(0, m_, [&](int64_t row, int64_t rows) { multiply(arguments, own, bias, row, rows, panel); });
    });
  }

 private:
  int64_t panel_numbers() const { return k_ * width_; }

  // [k / 2, width, 2]
  void pack_panel(const std::byte* b, int64_t panel, uint16_t* to) const {
    const int64_t first = panel * width_, there = std::min(width_, n_ - first);
    if (stored_ != TRANSOM_BFLOAT16) return pack_rounded(b, first, there, to);
    const auto* from = reinterpret_cast<const uint16_t*>(b) + first * b_column_;
    if (b_row_ == 1 && b_column_ % 2 == 0)  // pairs are words that lie so already
      return pack_rows_as_panel(reinterpret_cast<const uint32_t*>(from), b_column_ / 2, there, k_ / 2, width_,
                                reinterpret_cast<uint32_t*>(to));
    for (int64_t i = 0; i < k_; ++i)
      for (int64_t j = 0; j < width_; ++j)
        to[i / 2 * 2 * width_ + 2 * j + i % 2] = j < there ? from[i * b_row_ + j * b_column_] : uint16_t{0};
  }

  // The same of columns of another type, which are rounded as a cast rounds them.
  void pack_rounded(const std::byte* b, int64_t first, int64_t there, uint16_t* to) const {
    const auto place = [&](int64_t i, int64_t j) -> uint16_t& { return to[i / 2 * 2 * width_ + 2 * j + i % 2]; };
    const auto from = [&](int64_t i, int64_t j) {
      return b + static_cast<size_t>(i * b_row_ + (first + j) * b_column_) * element_size(stored_);
    };
    std::fill_n(to, panel_numbers(), uint16_t{0});
    // Along whichever axis lies in memory.
    const bool along_depth = b_row_ == 1;
    const int64_t lines = along_depth ? there : k_, length = along_depth ? k_ : there;
    std::vector<uint16_t> line(static_cast<size_t>(length));
    for (int64_t i = 0; i < lines; ++i) {
      if (along_depth || b_column_ == 1)
        convert(stored_, along_depth ? from(0, i) : from(i, 0), TRANSOM_BFLOAT16,
                reinterpret_cast<std::byte*>(line.data()), length);
      else
        for (int64_t j = 0; j < length; ++j)
          convert(stored_, from(i, j), TRANSOM_BFLOAT16, reinterpret_cast<std::byte*>(&line[static_cast<size_t>(j)]),
                  1);
      for (int64_t j = 0; j < length; ++j) (along_depth ? place(j, i) : place(i, j)) = line[static_cast<size_t>(j)];
    }
  }

  // The bias in f32, null if there is none.
  const float* wide_bias(const Arguments& arguments) const {
    if (!bias_) return nullptr;
    auto* wide = reinterpret_cast<float*>(arguments.scratch);
    widen(TRANSOM_BFLOAT16, arguments.inputs[2], wide, n_);
    return wide;
  }

  // Rows [row, row + rows) with one panel.
  void multiply(const Arguments& arguments, const uint16_t* packed, const float* bias, int64_t row, int64_t rows,
                int64_t panel) const {
    const int64_t first = panel * width_, there = std::min(width_, n_ - first);
    if (bias) bias += first;
    // Blocks of much the same size: of a row or two that are left over, sums are too few to hide the latency.
    const auto most = static_cast<int64_t>(table_.most_rows);
    const int64_t blocks = (rows + most - 1) / most;
    const auto row_bytes = static_cast<size_t>(n_) * element_size(output_);
    for (int64_t block = 0; block < blocks; ++block) {
      const int64_t begin = row + rows * block / blocks, end = row + rows * (block + 1) / blocks;
      const auto count = static_cast<size_t>(end - begin), pairs = static_cast<size_t>(k_ / 2);
      const uint16_t* a = arguments.input<uint16_t>(0) + begin * k_;
      const auto a_row = static_cast<size_t>(k_), c_row = static_cast<size_t>(n_);
      std::byte* to = arguments.outputs[0] + static_cast<size_t>(begin) * row_bytes +
                      static_cast<size_t>(first) * element_size(output_);
      if (there < width_) {
        float sums[kMostRows * kMostWidth];
        table_.multiply(sums, table_.width, a, a_row, packed, nullptr, count, pairs);
        for (size_t i = 0; i < count; ++i)
          store_sums(sums + i * table_.width, bias, there, output_, to + i * row_bytes);
      } else if (output_ == TRANSOM_FLOAT32) {
        table_.multiply(reinterpret_cast<float*>(to), c_row, a, a_row, packed, bias, count, pairs);
      } else {
        table_.multiply_to_bf16(reinterpret_cast<uint16_t*>(to), c_row, a, a_row, packed, bias, count, pairs);
      }
    }
  }

  const PairRows& table_;
  transom_dtype stored_;
  int64_t m_, n_, k_, b_row_, b_column_, width_, panels_;
  transom_dtype output_;
  bool bias_;
};

}  // namespace

std::optional<Kernel> pair_product(const Node& node, const ProductPlan& plan, bool waits) {
  const PairRows* rows = pair_rows();
  if (!rows || plan.a.dtype != TRANSOM_BFLOAT16 || plan.k % 2 != 0) return std::nullopt;
  return apart_kernel("rows apart, pairs of bf16", node, PairProduct(plan, *rows, stored_type(node, TRANSOM_BFLOAT16)),
                      waits);
}

}  // namespace transom::cpu
