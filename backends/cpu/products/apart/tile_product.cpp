// SPDX-License-Identifier: Apache-2.0
// Each sum goes through depth in steps of a tile, however many rows there are: what is cut is rows and columns alone.
#include "cpu/products/apart/tile_product.h"

#include <algorithm>
#include <vector>

#include "cpu/kernels/scratch.h"
#include "cpu/kernels/widening.h"
#include "cpu/products/apart/apart_kernel.h"
#include "cpu/products/product_parts.h"

namespace transom::cpu {
namespace {

constexpr int64_t kDepth = 32;                          // of a tile
constexpr int64_t kTogether = 8;                        // panels whose sums are stored together
constexpr int64_t kBytesTogether = 512 << 10;           // of b, that stay in the second cache while the rows go by
constexpr int64_t kFewRows = 16;                        // the time is that of reading b
constexpr int64_t kFewWork = 1 << 17, kWork = 1 << 20;  // multiplications of a part

struct TilePanels : PackedWeight {
  PackedMemory values;
};

class TileProduct {
 public:
  // `stored`: the type that b is packed from, where it is not bf16.
  TileProduct(const ProductPlan& plan, const PanelProducts& tiles, transom_dtype stored)
      : tiles_(tiles),
        stored_(stored),
        m_(plan.m),
        n_(plan.n),
        k_(plan.k),
        depth_((k_ + kDepth - 1) / kDepth * kDepth),
        b_row_(plan.b.row),
        b_column_(plan.b.column),
        width_(static_cast<int64_t>(tiles.width)),
        panels_((n_ + width_ - 1) / width_),
        together_(std::clamp<int64_t>(kBytesTogether / (panel_numbers() * 2), 1, kTogether)),
        output_(plan.output),
        bias_(plan.bias) {}

  std::vector<int64_t> key() const { return {-4, k_, n_, b_row_, b_column_, stored_}; }

  std::shared_ptr<TilePanels> pack(const std::byte* b) const {
    auto made = std::make_shared<TilePanels>();
    made->values = allocate_packed(static_cast<size_t>(panels_ * panel_numbers()) * sizeof(uint16_t));
    auto* to = reinterpret_cast<uint16_t*>(made->values.get());
    for_panels(panels_, panel_numbers(),
               [&](int64_t panel) { pack_panels(b, panel, panel + 1, to + panel * panel_numbers()); });
    return made;
  }

  size_t scratch_bytes() const { return bias_bytes() + (fills_up() ? rows_bytes(m_) : 0); }

  void run(const Arguments& arguments, const TilePanels& weight) const {
    const auto* packed = reinterpret_cast<const uint16_t*>(weight.values.get());
    const Left left = left_of(arguments);
    for_parts_of_product(m_, panels_, panel_numbers(), m_ < kFewRows ? kFewWork : kWork,
                         [&](int64_t row, int64_t rows, int64_t begin, int64_t end) {
                           for (int64_t panel = begin; panel < end; panel += together_)
                             multiply(arguments, left, packed + panel * panel_numbers(), {row, rows}, panel,
                                      std::min(panel + together_, end));
                         });
  }

  // With b as it is: panels are packed where they are multiplied.
  void run(const Arguments& arguments) const {
    const Left left = left_of(arguments);
    const int64_t groups = (panels_ + together_ - 1) / together_;
    for_panels(groups, together_ * panel_numbers(), [&](int64_t group) {
      const int64_t begin = group * together_, end = std::min(begin + together_, panels_);
      auto* own = reinterpret_cast<uint16_t*>(
          thread_scratch(static_cast<size_t>(together_ * panel_numbers()) * sizeof(uint16_t), ScratchUse::kPanels));
      pack_panels(arguments.inputs[1], begin, end, own);
      for_even_chunks(0, m_, [&](int64_t row, int64_t rows) {
        multiply(arguments, left, own, {row, rows}, begin, end);
      });
    });
  }

 private:
  // Rows of whole tiles, and the bias in f32, null if there is none.
  struct Left {
    const uint16_t* rows;
    const float* bias;
  };
  struct Rows {
    int64_t begin, count;
  };

  int64_t panel_numbers() const { return depth_ * width_; }
  bool fills_up() const { return depth_ != k_; }
  size_t bias_bytes() const { return bias_ ? aligned(static_cast<size_t>(n_) * sizeof(float)) : 0; }
  size_t rows_bytes(int64_t rows) const { return aligned(static_cast<size_t>(rows * depth_) * sizeof(uint16_t)); }

  Left left_of(const Arguments& arguments) const {
    Left left{arguments.input<uint16_t>(0), nullptr};
    if (bias_) {
      auto* wide = reinterpret_cast<float*>(arguments.scratch);
      widen(TRANSOM_BFLOAT16, arguments.inputs[2], wide, n_);
      left.bias = wide;
    }
    if (fills_up()) {
      auto* filled = reinterpret_cast<uint16_t*>(arguments.scratch + bias_bytes());
      for (int64_t i = 0; i < m_; ++i)
        std::fill(std::copy_n(left.rows + i * k_, k_, filled + i * depth_), filled + (i + 1) * depth_, uint16_t{0});
      left.rows = filled;
    }
    return left;
  }

  void pack_panels(const std::byte* b, int64_t begin, int64_t end, uint16_t* to) const {
    const int64_t first = begin * width_, there = std::min(end * width_, n_) - first;
    auto* words = reinterpret_cast<uint32_t*>(to);
    const auto depth = static_cast<size_t>(k_), columns = static_cast<size_t>(there);
    const std::byte* from = b + static_cast<size_t>(first * b_column_) * element_size(stored_);
    if (stored_ == TRANSOM_BFLOAT16 && b_row_ == 1)
      return tiles_.pack_transposed(words, from, static_cast<size_t>(b_column_), depth, columns);
    if (stored_ == TRANSOM_BFLOAT16 && b_column_ == 1)
      return tiles_.pack(words, from, static_cast<size_t>(b_row_), depth, columns);
    // Columns of another type, which are rounded as a cast rounds them, or that lie in no order.
    std::vector<uint16_t> lines(columns * depth);
    const size_t number = element_size(stored_);
    for (int64_t j = 0; j < there; ++j) {
      auto* line = reinterpret_cast<std::byte*>(&lines[static_cast<size_t>(j * k_)]);
      const std::byte* column = from + static_cast<size_t>(j * b_column_) * number;
      if (b_row_ == 1) {
        convert(stored_, column, TRANSOM_BFLOAT16, line, k_);
        continue;
      }
      for (int64_t i = 0; i < k_; ++i)
        convert(stored_, column + static_cast<size_t>(i * b_row_) * number, TRANSOM_BFLOAT16, line + 2 * i, 1);
    }
    tiles_.pack_transposed(words, lines.data(), depth, depth, columns);
  }

  // Some rows with the panels [begin, end), packed from `packed` on.
  void multiply(const Arguments& arguments, const Left& left, const uint16_t* packed, Rows rows, int64_t begin,
                int64_t end) const {
    const int64_t first = begin * width_, columns = (end - begin) * width_, there = std::min(columns, n_ - first);
    const auto row_bytes = static_cast<size_t>(n_) * element_size(output_);
    std::byte* to = arguments.outputs[0] + static_cast<size_t>(rows.begin) * row_bytes +
                    static_cast<size_t>(first) * element_size(output_);
    Scratch scratch(Scratch::bytes_of<float>(rows.count * columns));
    auto* sums = scratch.take<float>(rows.count * columns);
    tiles_.multiply(sums, static_cast<size_t>(columns), left.rows + rows.begin * depth_, static_cast<size_t>(depth_),
                    reinterpret_cast<const uint32_t*>(packed), static_cast<size_t>(rows.count),
                    static_cast<size_t>(columns), static_cast<size_t>(depth_));
    for (int64_t i = 0; i < rows.count; ++i)
      store_sums(sums + i * columns, left.bias ? left.bias + first : nullptr, there, output_,
                 to + static_cast<size_t>(i) * row_bytes);
  }

  const PanelProducts& tiles_;
  transom_dtype stored_;
  int64_t m_, n_, k_, depth_, b_row_, b_column_, width_, panels_, together_;
  transom_dtype output_;
  bool bias_;
};

}  // namespace

std::optional<Kernel> tile_product(const Node& node, const ProductPlan& plan, bool waits) {
  const PanelProducts& tiles = vector_kernels().tiles_bf16;
  if (!tiles.multiply || plan.a.dtype != TRANSOM_BFLOAT16) return std::nullopt;
  return apart_kernel("rows apart, tiles of bf16", node, TileProduct(plan, tiles, stored_type(node, TRANSOM_BFLOAT16)),
                      waits);
}

}  // namespace transom::cpu
