// SPDX-License-Identifier: Apache-2.0
// Attention by the loops of paged_attention: scores add up by registers of the depth, weights are made of the keys that
// a query sees and of no others, and values are added one key after the other. Panels, which attention has elsewhere,
// add scores up one number after the other.
#include "cpu/attention/apart_attention.h"

#include <algorithm>
#include <cstring>
#include <optional>
#include <vector>

#include "cpu/attention/attention_plan.h"
#include "cpu/attention/query_ranges.h"
#include "cpu/attention/stored_rows.h"
#include "cpu/device/threads.h"
#include "cpu/kernels/scratch.h"
#include "cpu/vector/products/row_products.h"

namespace transom::cpu {
namespace {

constexpr float kHiddenScore = -3.3895313892515355e38f;  // transom/ops.h
constexpr int64_t kRowsOfTask = 64, kScoresOfTask = 64 << 10;

RowStorage row_storage(transom_dtype dtype) {
  return dtype == TRANSOM_FLOAT32 ? kStoredF32 : dtype == TRANSOM_BFLOAT16 ? kStoredBF16 : kStoredF16;
}

// The keys of a query of a head, and what is added to their scores: null where that is 0.
struct SeenKeys {
  int64_t first, end;
  const float* bias;
  bool none() const { return first >= end; }
};

struct ApartAttention {
  AttentionPlan plan;
  RowStorage storage;
  bool ranged;

  explicit ApartAttention(const Node& node)
      : plan(node, node.input(0).dtype), storage(row_storage(plan.dtype)), ranged(node.op() == "ranged_attention") {}
  ApartAttention(const ApartAttention&) = delete;

  std::pair<int64_t, int64_t> visible(const QueryRanges* ranges, int64_t b, int64_t t) const {
    return ranges ? ranges->visible(b, t) : plan.visible(t);
  }

  // Padding at the ends is left out, so that nothing of it shows. A bias that repeats one number along the keys moves
  // all scores alike, and is only asked whether it hides them.
  SeenKeys seen(const AttentionInputs& in, const QueryRanges* ranges, int64_t b, int64_t h, int64_t t) const {
    auto [first, end] = visible(ranges, b, t);
    if (!in.bias) return {first, end, nullptr};
    const Shape& strides = plan.bias_strides;
    const float* bias = in.bias + b * strides[0] + h * strides[1] + t * strides[2];
    if (strides[3] == 0) return *bias <= kHiddenScore ? SeenKeys{end, end, nullptr} : SeenKeys{first, end, nullptr};
    while (first < end && bias[end - 1] <= kHiddenScore) --end;
    while (first < end && bias[first] <= kHiddenScore) ++first;
    const bool counts = std::any_of(bias + first, bias + end, [](float x) { return x != 0; });
    return {first, end, counts ? bias + first : nullptr};
  }

  const std::byte* rows_at(const std::byte* from, int64_t b, int64_t key, int64_t g, int64_t width) const {
    return from + static_cast<size_t>(((b * plan.S + key) * plan.G + g) * width) * plan.element();
  }

  // `queries` queries from `query` on, of the heads that share head g of the keys.
  void run_task(const Arguments& arguments, const AttentionInputs& in, const QueryRanges* ranges, int64_t b, int64_t g,
                int64_t query, int64_t queries) const {
    const int64_t shared = plan.group(), count = queries * shared, d = plan.d, e = plan.e;
    std::vector<SeenKeys> own(static_cast<size_t>(count));  // [queries, shared], as all rows here
    int64_t begin = plan.S, end = 0;
    for (int64_t r = 0; r < count; ++r) {
      SeenKeys& keys = own[static_cast<size_t>(r)];
      keys = seen(in, ranges, b, g * shared + r % shared, query + r / shared);
      // To whom a bias or the places hide everything all keys count alike; who has no text gets zeros.
      const auto [first, last] = visible(ranges, b, query + r / shared);
      if (keys.none() && !(ranges && first == last)) begin = 0, end = plan.S;
      else if (!keys.none()) begin = std::min(begin, keys.first), end = std::max(end, keys.end);
    }
    const int64_t n = std::max<int64_t>(end - begin, 0), width = (n + 15) / 16 * 16, padded = (e + 15) / 16 * 16;
    Scratch scratch(Scratch::bytes_of<float>(count * d) + Scratch::bytes_of<float>(count * width) +
                    Scratch::bytes_of<float>(count * padded) + Scratch::bytes_of<float>(plan.S) +
                    Scratch::bytes_of<uint32_t>(plan.S));
    auto* q = scratch.take<float>(count * d);
    auto* weights = scratch.take<float>(count * width);
    auto* y = scratch.take<float>(count * padded);
    auto* flat = scratch.take<float>(plan.S);
    auto* words = scratch.take<uint32_t>(plan.S);
    std::fill_n(y, count * padded, 0.0f);
    if (n > 0) {
      const auto size = [](int64_t x) { return static_cast<size_t>(x); };
      for (int64_t i = 0; i < queries; ++i) {
        const int64_t at = (b * plan.T + query + i) * plan.H + g * shared;
        load_row(plan, in.q + size(at * d) * plan.element(), shared * d, q + i * shared * d);
      }
      const RowProducts& kernels = row_products();
      const RowProducts::Heads heads{1, size(count), 0, nullptr};
      kernels.scores[storage](weights, 0, size(width), q, 0, heads, rows_at(in.k, b, begin, g, d), size(plan.G * d),
                              size(n), size(d));
      for (int64_t r = 0; r < count; ++r)
        weigh(in, ranges, b, g * shared + r % shared, query + r / shared, own[size(r)], {query, queries, begin, n},
              weights + r * width, flat, words);
      kernels.mix[storage](y, 0, size(padded), weights, 0, size(width), heads, rows_at(in.v, b, begin, g, e),
                           size(plan.G * e), size(n), size(e));
    }
    for (int64_t r = 0; r < count; ++r) {
      const int64_t at = (b * plan.T + query + r / shared) * plan.H + g * shared + r % shared;
      store_row(plan, y + r * padded, e, arguments.outputs[0] + static_cast<size_t>(at * e) * plan.element());
    }
  }

  // Scores of the keys of a block become weights of the query; what it does not see gets 0.
  void weigh(const AttentionInputs& in, const QueryRanges* ranges, int64_t b, int64_t h, int64_t t, const SeenKeys& own,
             const QueryBlock& block, float* x, float* flat, uint32_t* words) const {
    const WeightRows rows(plan, in, b, h);
    const auto [first, last] = visible(ranges, b, t);
    if (own.none() && ranges && first == last) {
      std::fill_n(x, block.keys, 0.0f);
      return;
    }
    if (own.none()) {
      rows.weigh(plan.with_all_keys(block), true, t, x, flat);
    } else {
      const int64_t n = own.end - own.first, begin = own.first - block.key;
      // Where its first key stands does not show in the order of its sums.
      if (begin > 0) std::memmove(x, x + begin, static_cast<size_t>(n) * sizeof(float));
      vector_kernels().attention_weights(x, own.bias, plan.scale, plan.soft_cap, static_cast<size_t>(n));
      if (begin > 0) std::memmove(x + begin, x, static_cast<size_t>(n) * sizeof(float));
      std::fill(x, x + begin, 0.0f);
      std::fill(x + begin + n, x + block.keys, 0.0f);
    }
    if (!plan.dropped) return;
    rows.draw(block, t, words);
    vector_kernels().drop(x, x, words, plan.drop_bound, plan.kept_scale, static_cast<size_t>(block.keys));
  }

  void run(const Arguments& arguments) const {
    const AttentionInputs in(plan, arguments);
    std::optional<QueryRanges> known;
    if (ranged) known.emplace(plan, arguments.input<int64_t>(plan.key_input + (plan.dropped ? 1 : 0)));
    const QueryRanges* ranges = known ? &*known : nullptr;
    const int64_t shared = plan.group(), fit = kScoresOfTask / std::max<int64_t>(shared * plan.S, 1);
    const int64_t together = std::clamp<int64_t>(std::min(fit, kRowsOfTask / shared), 1, plan.T);
    const int64_t blocks = (plan.T + together - 1) / together;
    parallel_for(static_cast<size_t>(plan.B * plan.G * blocks), [&](size_t task) {
      const auto i = static_cast<int64_t>(task);
      // The last queries of a causal mask see the most: they come first.
      const int64_t query = (blocks - 1 - i / plan.G / plan.B) * together;
      run_task(arguments, in, ranges, i / plan.G % plan.B, i % plan.G, query, std::min(together, plan.T - query));
    });
  }
};

}  // namespace

Kernel make_apart_attention(const Node& node) {
  node.output();
  auto program = std::make_shared<const ApartAttention>(node);
  return {fmt::format("attention, rows apart {}", row_products().name),
          [program](const Arguments& arguments) { program->run(arguments); }};
}

}  // namespace transom::cpu
