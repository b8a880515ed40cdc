// SPDX-License-Identifier: Apache-2.0
// Products with panels of b. A row has the same bits whatever other rows there are, as many requests in one batch need
// it: each sum goes through depth one number after the other; what is cut is only what does not show: columns, rows,
// and depth between two numbers.
#include "cpu/products/apart/panel_product.h"

#include <algorithm>
#include <cstring>

#include "cpu/device/threads.h"
#include "cpu/kernels/movement/views.h"
#include "cpu/kernels/packed_weight.h"
#include "cpu/kernels/scratch.h"
#include "cpu/kernels/widening.h"
#include "cpu/products/apart/pair_product.h"
#include "cpu/products/apart/row_panels.h"
#include "cpu/products/apart/tile_product.h"
#include "cpu/products/product_parts.h"

namespace transom::cpu {
namespace {

constexpr int64_t kDepth = 1024;  // of a panel, that stays in the second cache while the rows go by
constexpr int64_t kFewRows = 8;
constexpr int64_t kFewRegisters = 8;  // of columns, that few rows are multiplied with at once

// The panels of b from number `first` on.
struct Right {
  const std::byte* numbers;
  RowStorage storage;
  int64_t first = 0;
};

// Rows [begin, begin + count) of a and c.
struct Rows {
  int64_t begin, count;
};

class PanelProduct {
 public:
  PanelProduct(const ProductPlan& plan, transom_dtype stored)
      : m_(plan.m), n_(plan.n), k_(plan.k), output_(plan.output), panels_(plan, stored) {}

  const RowPanels& panels() const { return panels_; }

  void run(const float* a, const PackedPanels& b, const float* bias, std::byte* c) const {
    const int64_t few = kFewRegisters * panels_.lanes() / panels_.width();  // panels
    const int64_t least = m_ < kFewRows ? few : 1, most = 4 * few;          // of a part, of a tile of sums
    const int64_t count = panels_.count();
    for_parts_of_product(
        m_, (count + least - 1) / least, least * panels_.width() * k_, 1 << 15,
        [&](int64_t row, int64_t rows, int64_t begin, int64_t end) {
          const int64_t last = std::min(end * least, count);
          for (int64_t panel = begin * least; panel < last; panel += most)
            multiply(a, {b.numbers.get(), b.storage}, bias, c, {row, rows}, panel, std::min(panel + most, last));
        });
  }

  // With b as it is, in type `dtype`: each panel is packed where it is multiplied.
  void run(const float* a, const std::byte* b, transom_dtype dtype, const float* bias, std::byte* c) const {
    panels_.for_each([&](int64_t panel) {
      std::byte* own = thread_scratch(panels_.bytes(panel), ScratchUse::kPanels);
      panels_.pack(b, panel, own);
      for_even_chunks(0, m_, [&](int64_t row, int64_t rows) {
        multiply(a, {own, storage_of(dtype), panel}, bias, c, {row, rows}, panel, panel + 1);
      });
    });
  }

 private:
  // Columns of the panels [begin, end) of some rows.
  void multiply(const float* a, const Right& b, const float* bias, std::byte* c, Rows rows, int64_t begin,
                int64_t end) const {
    const int64_t width = panels_.width(), columns = panels_.columns(begin, end);
    const int64_t first = begin * width, there = std::min(columns, n_ - first);
    std::byte* to = c + static_cast<size_t>(rows.begin * n_ + first) * element_size(output_);
    // Sums of f32 in whole registers are the result, others go by way of memory of the thread.
    const bool direct = output_ == TRANSOM_FLOAT32 && there == columns;
    const bool few = few_rows(b.storage, rows.count), widens = b.storage != kStoredF32 && !few;
    Scratch scratch(Scratch::bytes_of<float>(direct ? 0 : rows.count * columns) +
                    Scratch::bytes_of<float>(widens ? width * chunk() : 0));
    auto* sums = direct ? reinterpret_cast<float*>(to) : scratch.take<float>(rows.count * columns);
    auto* wide = widens ? scratch.take<float>(width * chunk()) : nullptr;
    const int64_t sums_row = direct ? n_ : columns;
    a += rows.begin * k_;
    for (int64_t depth = 0; depth < k_; depth += chunk()) {
      const int64_t some = std::min(chunk(), k_ - depth);
      for (int64_t panel = begin, next = begin; panel < end; panel = next) {
        next = end_of_call(panel, end, few);
        const int64_t wanted = panels_.columns(panel, next), panel_width = std::min(wanted, width);
        const auto at = static_cast<size_t>((panel - b.first) * width * k_ + depth * panel_width);
        const std::byte* right = b.numbers + at * (b.storage == kStoredF32 ? 4 : 2);
        if (widens) {
          load_function(b.storage == kStoredBF16 ? TRANSOM_BFLOAT16 : TRANSOM_FLOAT16)(
              wide, right, nullptr, nullptr, static_cast<size_t>(some * panel_width));
          right = reinterpret_cast<const std::byte*>(wide);
        }
        const bool last = depth + some == k_;
        row_products().multiply[widens ? kStoredF32 : b.storage](
            sums + panel * width - first, static_cast<size_t>(sums_row), a + depth, static_cast<size_t>(k_), right,
            static_cast<size_t>(k_ * width), direct && last && bias ? bias + panel * width : nullptr,
            static_cast<size_t>(rows.count), static_cast<size_t>(wanted), static_cast<size_t>(some), depth > 0);
      }
    }
    for (int64_t i = 0; i < rows.count && !direct; ++i)
      store_sums(sums + i * columns, bias ? bias + first : nullptr, there, output_,
                 to + static_cast<size_t>(i * n_) * element_size(output_));
  }

  int64_t chunk() const { return k_ > kDepth + kDepth / 2 ? kDepth : k_; }

  // Numbers of 16 bits are widened anew for each block of rows in less time than they are stored and read. In registers
  // of 256 bits that holds for any number of rows: widening takes units there that the products leave free.
  bool few_rows(RowStorage storage, int64_t rows) const {
    return rows < kFewRows || (storage != kStoredF32 && (panels_.lanes() < 16 || rows <= 2 * kFewRows));
  }

  // A panel stays in the first cache, or the second, while the rows go by. Of few rows some panels go together, since
  // the sums of one are too few to hide the latency; a narrow one goes alone.
  int64_t end_of_call(int64_t panel, int64_t end, bool few) const {
    const int64_t next = std::min(panel + (few ? kFewRegisters * panels_.lanes() / panels_.width() : 1), end);
    return next - panel > 1 && panels_.columns(next - 1, next) < panels_.width() ? next - 1 : next;
  }

  int64_t m_, n_, k_;
  transom_dtype output_;
  RowPanels panels_;
};

}  // namespace

bool is_batch_invariant(const Node& node) { return node.integer("batch_invariant", 0) != 0; }

std::optional<Kernel> panel_product(const Node& node, const ProductPlan& plan, bool waits) {
  const transom_dtype input = plan.a.dtype;
  if (plan.batch != 1 || plan.a.rearrange || plan.b.rearrange || plan.b.dtype != input || plan.a.column != 1 ||
      (plan.a.row != plan.k && plan.m != 1) || (input != TRANSOM_FLOAT32 && !is_half(input)) ||
      (plan.output != TRANSOM_FLOAT32 && plan.output != input))
    return std::nullopt;
  if (auto tiles = tile_product(node, plan, waits)) return tiles;
  if (auto pairs = pair_product(node, plan, waits)) return pairs;
  const std::optional<Node::Origin> weight = node.frozen_origin(1);
  const PanelProduct product(plan, weight ? weight->dtype : input);
  const bool wide = input == TRANSOM_FLOAT32, reads_first = waits && weight && weight->dtype == input;
  const size_t a_bytes = wide ? 0 : aligned(static_cast<size_t>(plan.m * plan.k) * sizeof(float));
  const size_t bias_bytes = wide || !plan.bias ? 0 : aligned(static_cast<size_t>(plan.n) * sizeof(float));
  Kernel kernel{fmt::format("rows apart, {}{}", row_products().name, weight ? ", packed" : ""),
                [=](const Arguments& arguments) {
                  const float* a = arguments.input<float>(0);
                  const float* bias = plan.bias ? arguments.input<float>(2) : nullptr;
                  if (!wide) {
                    auto* wide_a = reinterpret_cast<float*>(arguments.scratch);
                    auto* wide_bias = reinterpret_cast<float*>(arguments.scratch + a_bytes);
                    widen(input, arguments.inputs[0], wide_a, plan.m * plan.k);
                    if (bias) widen(input, arguments.inputs[2], wide_bias, plan.n);
                    a = wide_a, bias = bias ? wide_bias : nullptr;
                  }
                  std::byte* c = arguments.outputs[0];
                  if (const auto kept = kept_weight(product.panels(), arguments, weight.has_value(), reads_first))
                    product.run(a, *kept, bias, c);
                  else product.run(a, arguments.inputs[1], input, bias, c);
                },
                a_bytes + bias_bytes};
  if (weight) kernel.instead.emplace_back(1, weight->value);
  return kernel;
}

std::optional<Kernel> panel_products(const ProductPlan& plan) {
  const transom_dtype input = plan.a.dtype;
  if (plan.bias || plan.a.rearrange || plan.b.rearrange || plan.b.dtype != input || plan.a.column != 1 ||
      (input != TRANSOM_FLOAT32 && !is_half(input)) || (plan.output != TRANSOM_FLOAT32 && plan.output != input))
    return std::nullopt;
  ProductPlan one = plan;
  one.batch = 1, one.a.row = plan.k;
  const PanelProduct product(one, input);
  return Kernel{
      fmt::format("rows apart, several products, {}", row_products().name),
      [=](const Arguments& arguments) {
        const size_t number = element_size(input);
        auto* rows = reinterpret_cast<float*>(arguments.scratch);
        for (int64_t i = 0; i < plan.batch; ++i) {
          const std::byte* a =
              arguments.inputs[0] + static_cast<size_t>(offset_of(i, plan.batch_shape, plan.a.batch_strides)) * number;
          for (int64_t row = 0; row < plan.m; ++row) {
            const std::byte* from = a + static_cast<size_t>(row * plan.a.row) * number;
            if (input == TRANSOM_FLOAT32) std::memcpy(rows + row * plan.k, from, static_cast<size_t>(plan.k) * number);
            else widen(input, from, rows + row * plan.k, plan.k);
          }
          const auto b = static_cast<size_t>(offset_of(i, plan.batch_shape, plan.b.batch_strides)) * number;
          product.run(rows, arguments.inputs[1] + b, input, nullptr,
                      arguments.outputs[0] + static_cast<size_t>(i * plan.m * plan.n) * element_size(plan.output));
        }
      },
      aligned(static_cast<size_t>(plan.m * plan.k) * sizeof(float))};
}

}  // namespace transom::cpu
