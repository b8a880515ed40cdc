// SPDX-License-Identifier: Apache-2.0
// ranged_attention: each query sees the keys of its own text. Which these are is data, so that products are found when
// it runs; what lies in other texts is never computed.
#include "cpu/attention/ranged_attention.h"

#include <algorithm>

#include "cpu/attention/apart_attention.h"
#include "cpu/attention/attention_gemm.h"
#include "cpu/attention/query_ranges.h"
#include "cpu/device/threads.h"
#include "cpu/kernels/wide_operands.h"
#include "cpu/products/apart/panel_product.h"
#include "cpu/vector/kernels.h"

namespace transom::cpu {
namespace {

size_t ranges_input(const AttentionPlan& plan) { return plan.key_input + (plan.dropped ? 1 : 0); }

struct RangedProgram {
  AttentionPlan plan;

  RangedProgram(const Node& node, transom_dtype dtype) : plan(node, dtype) {}
  RangedProgram(const RangedProgram&) = delete;

  void clear_queries(std::byte* out, const QueryRanges::Block& each, int64_t h) const {
    const size_t width = static_cast<size_t>(plan.e) * plan.element();
    for (int64_t i = 0; i < each.block.queries; ++i) {
      const int64_t query = (each.row * plan.T + each.block.query + i) * plan.H + h;
      std::fill_n(out + static_cast<size_t>(query) * width, width, std::byte{0});
    }
  }

  void run_block(const AttentionInputs& in, const QueryRanges& ranges, const QueryRanges::Block& each, int64_t h,
                 std::byte* out) const {
    const QueryBlock& block = each.block;
    if (block.keys == 0) return clear_queries(out, each, h);
    const int64_t b = each.row, g = h / plan.group(), n = block.keys;
    const WeightRows rows(plan, in, b, h);
    const HeadProducts product(plan, block);
    const int64_t row = product.row();
    Scratch scratch(Scratch::bytes_of<float>(block.queries * row) + 2 * Scratch::bytes_of<float>(n) +
                    product.scratch_bytes());
    auto* weights = scratch.take<float>(block.queries * row);  // [queries, keys]
    auto* own = scratch.take<float>(n);
    auto* words = scratch.take<uint32_t>(n);
    const auto offset = [&](int64_t element) { return static_cast<size_t>(element) * plan.element(); };
    const int64_t query = (b * plan.T + block.query) * plan.H + h, key = (b * plan.S + block.key) * plan.G + g;
    product.scores(in.q + offset(query * plan.d), in.k + offset(key * plan.d), weights, scratch);
    for (int64_t i = 0; i < block.queries; ++i) {
      float* x = weights + i * row;
      const auto [first, end] = ranges.visible(b, block.query + i);
      if (first == end) {
        std::fill_n(x, n, 0.0f);
        continue;
      }
      rows.weigh_keys(block, block.query + i, first, end, x, own);
      if (!plan.dropped) continue;
      rows.draw(block, block.query + i, words);
      vector_kernels().drop(x, x, words, plan.drop_bound, plan.kept_scale, static_cast<size_t>(n));
    }
    product.mix(weights, in.v + offset(key * plan.e), out + offset(query * plan.e), scratch);
  }

  void run(const Arguments& arguments) const {
    const AttentionInputs in(plan, arguments);
    const QueryRanges ranges(plan, arguments.input<int64_t>(ranges_input(plan)));
    const size_t heads = static_cast<size_t>(plan.H);
    parallel_for(ranges.blocks().size() * heads, [&](size_t task) {
      // Neighbouring tasks are of one head, whose keys they share.
      const size_t blocks = ranges.blocks().size();
      run_block(in, ranges, ranges.blocks()[task % blocks], static_cast<int64_t>(task / blocks), arguments.outputs[0]);
    });
  }
};

}  // namespace

Kernel make_ranged_attention(const Node& node) {
  node.output();
  if (is_batch_invariant(node)) return make_apart_attention(node);
  const WideOperands wide(node, {0, 1, 2}, 1);
  auto program = std::make_shared<const RangedProgram>(node, wide.dtype());
  return {fmt::format("attention in ranges {}", vector_kernels().name),
          [program, wide](const Arguments& arguments) {
            wide.run(arguments, [&](const Arguments& computed) { program->run(computed); });
          },
          wide.scratch_bytes()};
}

}  // namespace transom::cpu
