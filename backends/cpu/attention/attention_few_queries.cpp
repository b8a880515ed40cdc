// SPDX-License-Identifier: Apache-2.0
#include "cpu/attention/attention_few_queries.h"

#include <algorithm>

#include "cpu/attention/attention_plan.h"
#include "cpu/kernels/widening.h"
#include "cpu/vector/few_queries.h"
#include "cpu/vector/kernels.h"

namespace transom::cpu {
namespace {

constexpr float kMaskedScore = -3.3895313892515355e38f;  // transom/ops.h
constexpr int64_t kMostQueries = 4;
constexpr int64_t kHeadsTogether = 8;  // that share the keys which a task reads

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

  // Heads [h, h + heads) of one head of keys, query t of row b.
  void run_heads(const AttentionInputs& in, int64_t b, int64_t t, int64_t h, int64_t heads, std::byte* out) const {
    const int64_t g = h / plan.group(), S = plan.S;
    Range all{S, 0};
    Range own[kHeadsTogether];
    bool hidden = false;
    for (int64_t i = 0; i < heads; ++i) {
      own[i] = seen(bias_row(in, b, h + i, t), t);
      hidden |= own[i].empty();
      all = {std::min(all.first, own[i].first), std::max(all.end, own[i].end)};
    }
    if (hidden) all = {0, S};  // to whom nothing is shown, everything counts alike
    const int64_t row = all.end - all.first, q_at = ((b * plan.T + t) * plan.H + h) * plan.d;
    Scratch scratch(Scratch::bytes_of<float>(heads * plan.d) + Scratch::bytes_of<float>(heads * plan.e) +
                    Scratch::bytes_of<float>(heads * row) + Scratch::bytes_of<float>(S));
    auto* wide = scratch.take<float>(heads * plan.d);
    auto* mixed = scratch.take<float>(heads * plan.e);
    auto* weights = scratch.take<float>(heads * row);
    auto* flat = scratch.take<float>(S);
    const float* q = reinterpret_cast<const float*>(in.q) + q_at;
    if (plan.narrow()) {
      load_function(plan.dtype)(wide, in.q + q_at * 2, nullptr, nullptr, static_cast<size_t>(heads * plan.d));
      q = wide;
    }
    const FewQueries& kernels = few_queries();
    const auto count = static_cast<size_t>(heads), step = static_cast<size_t>(row);
    kernels.scores(weights, step, q, count, rows_of(in.k, plan.d, b, g, all));
    for (int64_t i = 0; i < heads; ++i) weigh(in, b, t, h + i, own[i], all, weights + i * row, flat);
    float* y = plan.narrow() ? mixed : reinterpret_cast<float*>(out) + ((b * plan.T + t) * plan.H + h) * plan.e;
    kernels.mix(y, weights, step, count, rows_of(in.v, plan.e, b, g, all));
    if (plan.narrow())
      store_function(plan.dtype)(out + ((b * plan.T + t) * plan.H + h) * plan.e * 2, y, nullptr, nullptr,
                                 static_cast<size_t>(heads * plan.e));
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
    const int64_t group = plan.group(), parts = (group + kHeadsTogether - 1) / kHeadsTogether;
    const int64_t tasks = plan.B * plan.T * plan.G * parts;
    const int64_t work = std::max<int64_t>(plan.S * (plan.d + plan.e) * std::min(group, kHeadsTogether), 1);
    parallel_ranges(tasks, std::max<int64_t>((1 << 15) / work, 1), [&](int64_t begin, int64_t end) {
      for (int64_t task = begin; task < end; ++task) {
        const int64_t part = task % parts, g = task / parts % plan.G, row = task / parts / plan.G;
        const int64_t first = part * group / parts, last = (part + 1) * group / parts;
        run_heads(in, row / plan.T, row % plan.T, g * group + first, last - first, arguments.outputs[0]);
      }
    });
  }
};

}  // namespace

bool has_few_queries(const Node& node) {
  const Type& q = node.input(0);
  const bool floating = q.dtype == TRANSOM_FLOAT32 || q.dtype == TRANSOM_BFLOAT16 || q.dtype == TRANSOM_FLOAT16;
  return floating && q.rank() == 4 && q.shape[1] <= kMostQueries && node.number("dropout") == 0;
}

Kernel make_attention_of_few_queries(const Node& node) {
  auto program = std::make_shared<const DecodingAttention>(node);
  return {fmt::format("attention of few queries {}", vector_kernels().name),
          [program](const Arguments& arguments) { program->run(arguments); }};
}

}  // namespace transom::cpu
