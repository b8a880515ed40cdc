// SPDX-License-Identifier: Apache-2.0
// The gradient of ranged_attention. A task is the heads that share keys, of a group of queries that share keys with no
// other group: their sums over queries then need no other thread.
#include <algorithm>
#include <cstring>

#include "cpu/attention/attention_gemm.h"
#include "cpu/attention/query_ranges.h"
#include "cpu/attention/ranged_attention.h"
#include "cpu/device/threads.h"
#include "cpu/kernels/wide_operands.h"
#include "cpu/vector/kernels.h"

namespace transom::cpu {
namespace {

// A matrix in memory: one of the steps, in elements, is 1.
struct Operand {
  const void* at;
  int64_t row, column;
};

// Products whose extents are known when they run.
class RunningProducts {
 public:
  explicit RunningProducts(const AttentionPlan& plan) : dtype_(plan.dtype) {
    const PanelProducts& half = vector_kernels().panels_bf16;
    if (dtype_ == TRANSOM_FLOAT32) panels_ = &vector_kernels().panels_f32;
    else if (const PanelProducts* tiles = tile_products(plan)) panels_ = tiles;
    else if (dtype_ == TRANSOM_BFLOAT16 && half.multiply && plan.d % 2 == 0 && plan.e % 2 == 0) panels_ = &half;
  }
  bool packs() const { return panels_ != nullptr; }
  // Rows of results, and of what is read by rows, are filled up to this.
  int64_t width() const { return panels_ ? static_cast<int64_t>(panels_->width) : 16; }
  int64_t whole(int64_t n) const { return (n + width() - 1) / width() * width(); }
  size_t packed_bytes(int64_t depth, int64_t columns) const {
    return panels_ ? Scratch::bytes_of<uint32_t>((whole(depth) + 1) * whole(columns)) : 0;
  }
  // c [m, n] of f32, a step of whole(n) from row to row, = a [m, k] b [k, n]; a lies in rows where packs().
  void run(float* c, const Operand& a, const Operand& b, int64_t m, int64_t n, int64_t k, uint32_t* packed) const {
    if (!panels_) {
      MatrixProduct::find({m, n, k, a.row, a.column, b.row, b.column, whole(n), dtype_, TRANSOM_FLOAT32, false, false})
          ->run(a.at, b.at, nullptr, c);
      return;
    }
    const auto count = [](int64_t x) { return static_cast<size_t>(x); };
    if (b.column == 1) panels_->pack(packed, b.at, count(b.row), count(k), count(n));
    else panels_->pack_transposed(packed, b.at, count(b.column), count(k), count(n));
    panels_->multiply(c, count(whole(n)), a.at, count(a.row), packed, count(m), count(n), count(k));
  }

 private:
  transom_dtype dtype_;
  const PanelProducts* panels_ = nullptr;
};

template <typename Number>
void transpose_rows(const Number* from, int64_t step, int64_t rows, int64_t columns, Number* to, int64_t to_step) {
  for (int64_t j = 0; j < columns; ++j) {
    for (int64_t i = 0; i < rows; ++i) to[j * to_step + i] = from[i * step + j];
    for (int64_t i = rows; i < to_step; ++i) to[j * to_step + i] = Number{0};
  }
}

struct RangedGradientProgram {
  AttentionPlan plan;
  RunningProducts products;

  RangedGradientProgram(const Node& node, transom_dtype dtype) : plan(node, dtype), products(plan) {}
  RangedGradientProgram(const RangedGradientProgram&) = delete;

  // What a task works with: for its largest block, and sums over its group, [d, keys] and [e, keys].
  struct Memory {
    float *weights, *kept, *dweights, *own, *product, *dk, *dv;
    uint32_t *words, *packed;
    uint16_t* narrow;
    std::byte* turned;
    int64_t keys;  // of a row of dk and dv
  };

  Memory memory(const QueryRanges& ranges, const QueryRanges::Group& group) const {
    int64_t scores = 1, queries = 1, keys = 1;
    for (size_t i = group.first; i < group.last; ++i) {
      const QueryBlock& block = ranges.blocks()[i].block;
      scores = std::max(scores, block.queries * products.whole(block.keys));
      queries = std::max(queries, block.queries), keys = std::max(keys, block.keys);
    }
    const int64_t most = std::max(plan.d, plan.e), turned = products.whole(queries),
                  wide = std::max(products.whole(keys) * most, queries * products.whole(plan.d));
    const size_t packed =
        std::max(products.packed_bytes(std::max(most, queries), keys), products.packed_bytes(keys, plan.d));
    Memory m{};
    m.keys = products.whole(group.keys);
    Scratch scratch((plan.dropped ? 3 : 2) * Scratch::bytes_of<float>(scores) + Scratch::bytes_of<uint16_t>(scores) +
                    2 * Scratch::bytes_of<float>(keys) + Scratch::bytes_of<float>(wide) + packed +
                    Scratch::bytes_of<float>(most * turned) + Scratch::bytes_of<float>(plan.d * m.keys) +
                    Scratch::bytes_of<float>(plan.e * m.keys));
    m.weights = scratch.take<float>(scores);
    m.kept = plan.dropped ? scratch.take<float>(scores) : m.weights;
    m.dweights = scratch.take<float>(scores);
    m.narrow = scratch.take<uint16_t>(scores);
    m.own = scratch.take<float>(keys);
    m.words = scratch.take<uint32_t>(keys);
    m.product = scratch.take<float>(wide);
    m.turned = reinterpret_cast<std::byte*>(scratch.take<float>(most * turned));
    m.dk = scratch.take<float>(plan.d * m.keys);
    m.dv = scratch.take<float>(plan.e * m.keys);
    m.packed = reinterpret_cast<uint32_t*>(scratch.take<std::byte>(static_cast<int64_t>(packed)));
    return m;
  }

  const std::byte* at(const std::byte* base, int64_t element) const {
    return base + static_cast<size_t>(element) * plan.element();
  }

  // [m, width], `step` apart, as the left operand [width, m] of a product.
  Operand turned(const std::byte* from, int64_t step, int64_t m, int64_t width, const Memory& memory) const {
    if (!products.packs()) return {from, 1, step};
    const int64_t row = products.whole(m);
    if (plan.narrow())
      transpose_rows(reinterpret_cast<const uint16_t*>(from), step, m, width,
                     reinterpret_cast<uint16_t*>(memory.turned), row);
    else
      transpose_rows(reinterpret_cast<const float*>(from), step, m, width, reinterpret_cast<float*>(memory.turned),
                     row);
    return {memory.turned, row, 1};
  }

  // sums [width, keys of the group] + product [width, n], from column `begin` on.
  void add_columns(float* sums, const Memory& m, int64_t width, int64_t begin, int64_t n) const {
    for (int64_t j = 0; j < width; ++j) {
      float* to = sums + j * m.keys + begin;
      vector_kernels().binary[kAdd][kF32](to, to, m.product + j * products.whole(n), nullptr, static_cast<size_t>(n));
    }
  }

  void run_block(const AttentionInputs& in, const QueryRanges& ranges, const QueryRanges::Block& each,
                 const std::byte* dy, int64_t h, int64_t first_key, const Memory& m, std::byte* dq) const {
    const VectorKernels& kernels = vector_kernels();
    const QueryBlock& block = each.block;
    const int64_t b = each.row, g = h / plan.group(), d = plan.d, e = plan.e, H = plan.H, G = plan.G;
    const int64_t queries = block.queries, n = block.keys, row = products.whole(n);
    const int64_t query = (b * plan.T + block.query) * H + h, key = (b * plan.S + block.key) * G + g;
    const std::byte *q = at(in.q, query * d), *k = at(in.k, key * d), *v = at(in.v, key * e),
                    *of_out = at(dy, query * e);
    const WeightRows rows(plan, in, b, h);
    products.run(m.weights, {q, H * d, 1}, {k, 1, G * d}, queries, n, d, m.packed);
    products.run(m.dweights, {of_out, H * e, 1}, {v, 1, G * e}, queries, n, e, m.packed);
    for (int64_t i = 0; i < queries; ++i) {
      float *weights = m.weights + i * row, *dweights = m.dweights + i * row;
      const auto [first, end] = ranges.visible(b, block.query + i);
      if (first == end) std::fill_n(weights, n, 0.0f);
      else rows.weigh_keys(block, block.query + i, first, end, weights, m.own);
      for (float* x : {weights, dweights}) std::fill(x + n, x + row, 0.0f);
      if (!plan.dropped) continue;
      rows.draw(block, block.query + i, m.words);
      kernels.drop(m.kept + i * row, weights, m.words, plan.drop_bound, plan.kept_scale, static_cast<size_t>(n));
      std::fill(m.kept + i * row + n, m.kept + (i + 1) * row, 0.0f);
      kernels.drop(dweights, dweights, m.words, plan.drop_bound, plan.kept_scale, static_cast<size_t>(n));
    }
    const void* kept = as_operand(plan, m.kept, queries * row, m.narrow);
    products.run(m.product, turned(of_out, H * e, queries, e, m), {kept, row, 1}, e, n, queries, m.packed);
    add_columns(m.dv, m, e, block.key - first_key, n);
    for (int64_t i = 0; i < queries; ++i) {
      float *weights = m.weights + i * row, *dweights = m.dweights + i * row;
      const float shift = kernels.dot(weights, dweights, static_cast<size_t>(n));
      kernels.score_gradient(dweights, weights, shift, plan.scale, static_cast<size_t>(n));
    }
    const void* dscores = as_operand(plan, m.dweights, queries * row, m.narrow);
    products.run(m.product, turned(q, H * d, queries, d, m), {dscores, row, 1}, d, n, queries, m.packed);
    add_columns(m.dk, m, d, block.key - first_key, n);
    products.run(m.product, {dscores, row, 1}, {k, G * d, 1}, queries, d, n, m.packed);
    for (int64_t i = 0; i < queries; ++i)
      store_row(m.product + i * products.whole(d), d, dq + static_cast<size_t>((query + i * H) * d) * plan.element());
  }

  void store_row(const float* from, int64_t n, std::byte* to) const {
    if (plan.narrow()) as_operand(plan, from, n, reinterpret_cast<uint16_t*>(to));
    else std::memcpy(to, from, static_cast<size_t>(n) * sizeof(float));
  }

  // Sums [width, keys] of a head into [B, S, G, width].
  void store(const float* sums, const QueryRanges::Group& group, int64_t g, int64_t width, const Memory& m,
             std::byte* to) const {
    for (int64_t s = 0; s < group.keys; ++s) {
      for (int64_t j = 0; j < width; ++j) m.product[j] = sums[j * m.keys + s];
      const int64_t place = ((group.row * plan.S + group.key + s) * plan.G + g) * width;
      store_row(m.product, width, to + static_cast<size_t>(place) * plan.element());
    }
  }

  void run_group(const AttentionInputs& in, const QueryRanges& ranges, const QueryRanges::Group& group,
                 const std::byte* dy, int64_t g, std::byte* const* out) const {
    if (group.keys == 0) return;
    const Memory m = memory(ranges, group);
    std::fill_n(m.dk, plan.d * m.keys, 0.0f);
    std::fill_n(m.dv, plan.e * m.keys, 0.0f);
    for (int64_t h = g * plan.group(); h < (g + 1) * plan.group(); ++h)
      for (size_t i = group.first; i < group.last; ++i)
        if (ranges.blocks()[i].block.keys > 0) run_block(in, ranges, ranges.blocks()[i], dy, h, group.key, m, out[0]);
    store(m.dk, group, g, plan.d, m, out[1]);
    store(m.dv, group, g, plan.e, m, out[2]);
  }

  // Where no query sees a key, and no key is seen, there is nothing else to write.
  void clear(const Arguments& arguments) const {
    const int64_t counts[] = {plan.B * plan.T * plan.H * plan.d, plan.B * plan.S * plan.G * plan.d,
                              plan.B * plan.S * plan.G * plan.e};
    for (size_t i = 0; i < 3; ++i)
      std::memset(arguments.outputs[i], 0, static_cast<size_t>(counts[i]) * plan.element());
  }
  bool covers_all(const QueryRanges& ranges) const {
    int64_t keys = 0;
    for (const QueryRanges::Group& group : ranges.groups()) keys += group.keys;
    return keys == plan.B * plan.S && std::all_of(ranges.blocks().begin(), ranges.blocks().end(),
                                                  [](const auto& each) { return each.block.keys > 0; });
  }

  void run(const Arguments& arguments) const {
    const AttentionInputs in(plan, arguments);
    const size_t place = plan.key_input + (plan.dropped ? 1 : 0);
    const QueryRanges ranges(plan, arguments.input<int64_t>(place));
    const std::byte* dy = arguments.inputs[place + 1];
    if (!covers_all(ranges)) clear(arguments);
    const auto heads = static_cast<size_t>(plan.G);
    parallel_for(ranges.groups().size() * heads, [&](size_t task) {
      run_group(in, ranges, ranges.groups()[task / heads], dy, static_cast<int64_t>(task % heads), arguments.outputs);
    });
  }
};

}  // namespace

Kernel make_ranged_attention_gradient(const Node& node) {
  node.output(2);
  const WideOperands wide(node, {0, 1, 2, node.input_count() - 1}, 3);  // the last one is dy
  auto program = std::make_shared<const RangedGradientProgram>(node, wide.dtype());
  return {fmt::format("attention in ranges {}", vector_kernels().name),
          [program, wide](const Arguments& arguments) {
            wide.run(arguments, [&](const Arguments& computed) { program->run(computed); });
          },
          wide.scratch_bytes()};
}

}  // namespace transom::cpu
