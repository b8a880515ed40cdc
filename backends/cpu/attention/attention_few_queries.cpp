// SPDX-License-Identifier: Apache-2.0
#include "cpu/attention/attention_few_queries.h"

#include <algorithm>
#include <span>

#include "cpu/attention/attention_plan.h"
#include "cpu/attention/stored_rows.h"
#include "cpu/vector/attention/few_queries.h"
#include "cpu/vector/kernels.h"

namespace transom::cpu {
namespace {

constexpr float kMaskedScore = -3.3895313892515355e38f;  // transom/ops.h
constexpr int64_t kMostQueries = 4;
constexpr int64_t kHeadsTogether = 8;  // queries that share the keys which a task reads
constexpr int64_t kKeysAQuery = 4;     // fewer: products of matrices are as fast

struct Range {
  int64_t first, end;
  bool empty() const { return first >= end; }
};

struct DecodingAttention {
  AttentionPlan plan;
  StoredRows::Type type;

  explicit DecodingAttention(const Node& node)
      : plan(node, node.input(0).dtype),
        type(plan.dtype == TRANSOM_FLOAT32    ? StoredRows::kF32
             : plan.dtype == TRANSOM_BFLOAT16 ? StoredRows::kBF16
                                              : StoredRows::kF16) {}
  DecodingAttention(const DecodingAttention&) = delete;

  const float* bias_row(const AttentionInputs& in, int64_t b, int64_t h, int64_t t) const {
    if (!in.bias) return nullptr;
    const Shape& strides = plan.bias_strides;
    return in.bias + b * strides[0] + h * strides[1] + t * strides[2];
  }

  // The keys that a query of a head sees; empty if the bias hides all of those.
  Range seen(const float* bias, int64_t t) const {
    auto [first, end] = plan.visible(t);
    if (!bias) return {first, end};
    const int64_t step = plan.bias_strides[3];
    while (first < end && bias[(end - 1) * step] <= kMaskedScore) --end;
    while (first < end && bias[first * step] <= kMaskedScore) ++first;
    return {first, end};
  }

  StoredRows rows_of(const std::byte* from, int64_t width, int64_t b, int64_t g, Range range) const {
    const int64_t at = ((b * plan.S + range.first) * plan.G + g) * width;
    return {from + static_cast<size_t>(at) * plan.element(), type, static_cast<size_t>(plan.G * width),
            static_cast<size_t>(range.end - range.first), static_cast<size_t>(width)};
  }

  // A query of a head; those of one task read the same keys.
  struct Query {
    int64_t t, h;
  };

  // Queries of row b whose heads share the head g of keys.
  void run_queries(const AttentionInputs& in, int64_t b, int64_t g, std::span<const Query> queries,
                   std::byte* out) const {
    const auto count = static_cast<int64_t>(queries.size());
    Range all{plan.S, 0};
    Range own[kHeadsTogether];
    bool hidden = false;
    for (int64_t i = 0; i < count; ++i) {
      const Query& query = queries[static_cast<size_t>(i)];
      own[i] = seen(bias_row(in, b, query.h, query.t), query.t);
      hidden |= own[i].empty();
      all = {std::min(all.first, own[i].first), std::max(all.end, own[i].end)};
    }
    if (hidden) all = {0, plan.S};  // to whom nothing is shown, everything counts alike
    const int64_t row = all.end - all.first;
    Scratch scratch(Scratch::bytes_of<float>(count * plan.d) + Scratch::bytes_of<float>(count * plan.e) +
                    Scratch::bytes_of<float>(count * row) + Scratch::bytes_of<float>(plan.S));
    auto* q = scratch.take<float>(count * plan.d);
    auto* mixed = scratch.take<float>(count * plan.e);
    auto* weights = scratch.take<float>(count * row);
    auto* flat = scratch.take<float>(plan.S);
    for (int64_t i = 0; i < count; ++i) {
      const auto [t, h] = queries[static_cast<size_t>(i)];
      const std::byte* from = in.q + static_cast<size_t>(((b * plan.T + t) * plan.H + h) * plan.d) * plan.element();
      load_row(plan, from, plan.d, q + i * plan.d);
    }
    const FewQueries& kernels = few_queries();
    const auto together = static_cast<size_t>(count), step = static_cast<size_t>(row);
    kernels.scores(weights, step, q, together, rows_of(in.k, plan.d, b, g, all));
    for (int64_t i = 0; i < count; ++i) {
      const auto [t, h] = queries[static_cast<size_t>(i)];
      weigh(in, b, t, h, own[i], all, weights + i * row, flat);
    }
    kernels.mix(mixed, weights, step, together, rows_of(in.v, plan.e, b, g, all));
    for (int64_t i = 0; i < count; ++i) {
      const auto [t, h] = queries[static_cast<size_t>(i)];
      std::byte* to = out + static_cast<size_t>(((b * plan.T + t) * plan.H + h) * plan.e) * plan.element();
      store_row(plan, mixed + i * plan.e, plan.e, to);
    }
  }

  // Scores of the keys in `all` become weights; those outside of the head's own range get 0.
  void weigh(const AttentionInputs& in, int64_t b, int64_t t, int64_t h, Range own, Range all, float* x,
             float* flat) const {
    if (own.empty()) {
      const WeightRows rows(plan, in, b, h);
      rows.weigh(plan.with_all_keys({t, 1, 0, plan.S}), true, t, x, flat);
      return;
    }
    const int64_t n = own.end - own.first, begin = own.first - all.first;
    const float* bias = bias_row(in, b, h, t);
    if (bias && plan.bias_strides[3] == 0) {
      std::fill_n(flat, n, *bias);
      bias = flat;
    } else if (bias) {
      bias += own.first;
    }
    vector_kernels().attention_weights(x + begin, bias, plan.scale, plan.soft_cap, static_cast<size_t>(n));
    std::fill(x, x + begin, 0.0f);
    std::fill(x + begin + n, x + (all.end - all.first), 0.0f);
  }

  void run(const Arguments& arguments) const {
    const AttentionInputs in(plan, arguments);
    // Queries of one row that see the same keys are of one task; else each has tasks of its own.
    const bool alike = !plan.causal && (!in.bias || plan.bias_strides[2] == 0);
    const int64_t shared = alike ? plan.T : 1, rows = plan.B * plan.T / std::max<int64_t>(shared, 1);
    const int64_t count = plan.group() * shared, parts = (count + kHeadsTogether - 1) / kHeadsTogether;
    const int64_t tasks = rows * plan.G * parts;
    const int64_t work = std::max<int64_t>(plan.S * (plan.d + plan.e) * std::min(count, kHeadsTogether), 1);
    parallel_ranges(tasks, std::max<int64_t>((1 << 15) / work, 1), [&](int64_t begin, int64_t end) {
      for (int64_t task = begin; task < end; ++task) {
        const int64_t part = task % parts, g = task / parts % plan.G, row = task / parts / plan.G;
        const int64_t first = part * count / parts, last = (part + 1) * count / parts;
        Query queries[kHeadsTogether];
        for (int64_t i = first; i < last; ++i)
          queries[i - first] = {alike ? i / plan.group() : row % plan.T, g * plan.group() + i % plan.group()};
        run_queries(in, alike ? row : row / plan.T, g, {queries, static_cast<size_t>(last - first)},
                    arguments.outputs[0]);
      }
    });
  }
};

}  // namespace

bool has_few_queries(const Node& node) {
  const Type& q = node.input(0);
  const bool floating = q.dtype == TRANSOM_FLOAT32 || q.dtype == TRANSOM_BFLOAT16 || q.dtype == TRANSOM_FLOAT16;
  if (!floating || q.rank() != 4 || node.number("dropout") != 0) return false;
  if (q.shape[1] <= kMostQueries) return true;
  // Beams that read one source: as many queries as a task takes.
  const Type& k = node.input(1);
  return q.shape[1] <= kHeadsTogether && node.integer("causal") == 0 && k.rank() == 4 &&
         k.shape[1] >= kKeysAQuery * q.shape[1];
}

Kernel make_attention_of_few_queries(const Node& node) {
  auto program = std::make_shared<const DecodingAttention>(node);
  return {fmt::format("attention of few queries {}", vector_kernels().name),
          [program](const Arguments& arguments) { program->run(arguments); }};
}

}  // namespace transom::cpu
