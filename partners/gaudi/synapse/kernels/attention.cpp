// SPDX-License-Identifier: Apache-2.0
// Flash attention and rotary embeddings. Attention is computed in f32 row by row; dropout is not emulated. The first
// generation has no flash nodes.
#include <algorithm>

#include "../configuration.h"
#include "elementwise.h"
#include "rows.h"

namespace synapse_emulator {
namespace {

// Q [d, S, H, B], K and V [d, T, H, B]; fewer heads of K and V are shared by groups of heads of Q.
struct Attention {
  AttentionParams params;
  int64_t width, queries, keys, heads, key_heads, batch, value_width;
};

Attention attention_of(const Node& node, size_t first) {
  const Operand &q = node.input(first), &k = node.input(first + 1), &v = node.input(first + 2);
  Attention a;
  a.params = params_of<AttentionParams>(node);
  require(configuration().generation.type != synDeviceGaudi, node, "the first generation has no flash attention");
  require(a.params.dropout.ratio == 0, node, "dropout is not emulated");
  require(q.sizes.rank == 4 && k.sizes.rank == 4 && v.sizes.rank == 4, node, "Q, K and V have four dims");
  a.width = q.sizes[0], a.queries = q.sizes[1], a.heads = q.sizes[2], a.batch = q.sizes[3];
  a.keys = k.sizes[1], a.key_heads = k.sizes[2], a.value_width = v.sizes[0];
  require(k.sizes[0] == a.width && k.sizes[3] == a.batch && a.key_heads > 0 && a.heads % a.key_heads == 0, node, "K ",
          text_of(k.sizes), " for Q ", text_of(q.sizes));
  require(v.sizes[1] == a.keys && v.sizes[2] == a.key_heads && v.sizes[3] == a.batch, node, "V ", text_of(v.sizes),
          " for K ", text_of(k.sizes));
  for (size_t i = 0; i < 3; ++i) require_type(node, node.input(first + i), node.type, "Q, K or V");
  return a;
}

void check_mask(const Node& node, const Attention& a, const Operand& mask) {
  if (!mask.present) return;
  require(is_floating(mask.type) && mask.sizes.rank <= 4, node, "the mask is floating with four dims");
  const int64_t whole[] = {a.keys, a.queries, a.heads, a.batch};
  for (int dim = 0; dim < 4; ++dim)
    require(mask.sizes[dim] == whole[dim] || mask.sizes[dim] == 1, node, "the mask ", text_of(mask.sizes));
}

Sizes statistics_of(const Attention& a) {
  Sizes sizes;
  sizes.rank = 4;
  sizes.size = {1, a.queries, a.heads, a.batch};
  return sizes;
}

std::vector<float> floats(const Operand& operand) {
  std::vector<float> result(static_cast<size_t>(operand.elements()));
  load<float>(operand.type, operand.data, 0, 1, operand.elements(), result.data());
  return result;
}

// The scores of one query against all keys.
void score(const Attention& a, const std::vector<float>& q, const std::vector<float>& k, const Operand& mask,
           int64_t row, std::vector<float>& scores) {
  const int64_t query = row % a.queries, head = row / a.queries % a.heads, image = row / a.queries / a.heads;
  const float* left = q.data() + row * a.width;
  const float* right = k.data() + ((image * a.key_heads + head / (a.heads / a.key_heads)) * a.keys) * a.width;
  for (int64_t key = 0; key < a.keys; ++key) {
    float sum = 0;
    for (int64_t i = 0; i < a.width; ++i) sum += left[i] * right[key * a.width + i];
    scores[static_cast<size_t>(key)] = sum * a.params.scale;
    if (a.params.is_causal && key > query + (a.keys - a.queries)) scores[static_cast<size_t>(key)] = -INFINITY;
  }
  if (!mask.present) return;
  const auto stride = strides_of(mask.sizes);
  const int64_t place[] = {0, query, head, image};
  int64_t base = 0;
  for (int dim = 1; dim < 4; ++dim)
    if (mask.sizes[dim] > 1) base += place[dim] * stride[static_cast<size_t>(dim)];
  std::vector<float> added(static_cast<size_t>(a.keys));
  load<float>(mask.type, mask.data, base, mask.sizes[0] > 1 ? 1 : 0, a.keys, added.data());
  for (size_t key = 0; key < added.size(); ++key) scores[key] += added[key];
}

// {Q, K, V, mask, seed, 7 missing} -> {O [, largest score, 1 / sum, seed]}
void check_forward(const Node& node) {
  require_counts(node, 3, 12, 1, 4);
  const Attention a = attention_of(node, 0);
  check_mask(node, a, node.input(3));
  for (size_t i = 5; i < node.in.size(); ++i) require(!node.has_input(i), node, "input ", i, " is not emulated");
  Sizes expected = node.input(0).sizes;
  expected.size[0] = a.value_width;
  require_type(node, node.output(0), node.type, "O");
  require_sizes(node, node.output(0), expected, "O");
  require(a.params.is_inference || (node.has_output(1) && node.has_output(2)), node, "training needs the statistics");
  if (node.has_output(1)) require_sizes(node, node.output(1), statistics_of(a), "the largest scores");
  if (node.has_output(2)) {
    require_sizes(node, node.output(2), statistics_of(a), "the inverse sums");
    require_type(node, node.output(2), syn_type_single, "the inverse sums");
  }
}
void run_forward(const Node& node) {
  const Attention a = attention_of(node, 0);
  const std::vector<float> q = floats(node.input(0)), k = floats(node.input(1)), v = floats(node.input(2));
  parallel_for(a.queries * a.heads * a.batch, 8, [&](int64_t from, int64_t to) {
    std::vector<float> scores(static_cast<size_t>(a.keys)), out(static_cast<size_t>(a.value_width));
    for (int64_t row = from; row < to; ++row) {
      score(a, q, k, node.input(3), row, scores);
      float largest = -INFINITY, sum = 0;
      for (const float x : scores) largest = std::max(largest, x);
      if (node.has_output(1)) {  // what is handed out is what the sums are taken with
        store<float>(node.output(1).type, node.output(1).data, row, 1, 1, &largest);
        load<float>(node.output(1).type, node.output(1).data, row, 1, 1, &largest);
      }
      for (float& x : scores) sum += x = std::exp(x - largest);
      const float inverse = 1 / sum;
      std::fill(out.begin(), out.end(), 0.0f);
      const int64_t head = row / a.queries % a.heads, image = row / a.queries / a.heads;
      const float* values =
          v.data() + ((image * a.key_heads + head / (a.heads / a.key_heads)) * a.keys) * a.value_width;
      for (int64_t key = 0; key < a.keys; ++key)
        for (int64_t i = 0; i < a.value_width; ++i)
          out[static_cast<size_t>(i)] += scores[static_cast<size_t>(key)] * inverse * values[key * a.value_width + i];
      store<float>(node.type, node.output(0).data, row * a.value_width, 1, a.value_width, out.data());
      if (node.has_output(2)) store<float>(syn_type_single, node.output(2).data, row, 1, 1, &inverse);
    }
  });
}

// {dO, Q, K, V, mask, largest score, 1 / sum, seed [, O]} -> {dQ, dK, dV}
void check_backward(const Node& node) {
  require_counts(node, 4, 9, 3, 3);
  const Attention a = attention_of(node, 1);
  require_type(node, node.input(0), node.type, "dO");
  check_mask(node, a, node.input(4));
  require(node.has_input(5) && node.has_input(6), node, "the statistics are missing");
  require_sizes(node, node.input(5), statistics_of(a), "the largest scores");
  require_sizes(node, node.input(6), statistics_of(a), "the inverse sums");
  for (size_t i = 0; i < 3; ++i) {
    require_sizes(node, node.output(i), node.input(i + 1).sizes, "a gradient");
    require_type(node, node.output(i), node.type, "a gradient");
  }
}
void run_backward(const Node& node) {
  const Attention a = attention_of(node, 1);
  const std::vector<float> d_out = floats(node.input(0)), q = floats(node.input(1)), k = floats(node.input(2)),
                           v = floats(node.input(3)), largest = floats(node.input(5)), inverse = floats(node.input(6));
  std::vector<float> dq(q.size(), 0), dk(k.size(), 0), dv(v.size(), 0);
  const auto keys = static_cast<size_t>(a.keys);
  std::vector<float> p(keys), dp(keys);
  for (int64_t row = 0; row < a.queries * a.heads * a.batch; ++row) {
    score(a, q, k, node.input(4), row, p);
    const int64_t head = row / a.queries % a.heads, image = row / a.queries / a.heads;
    const int64_t first = (image * a.key_heads + head / (a.heads / a.key_heads)) * a.keys;
    const float* out = d_out.data() + row * a.value_width;
    float dot = 0;
    for (size_t key = 0; key < keys; ++key) {
      p[key] = std::exp(p[key] - largest[static_cast<size_t>(row)]) * inverse[static_cast<size_t>(row)];
      const float* value = v.data() + (first + static_cast<int64_t>(key)) * a.value_width;
      dp[key] = 0;
      for (int64_t i = 0; i < a.value_width; ++i) dp[key] += out[i] * value[i];
      dot += p[key] * dp[key];
    }
    for (size_t key = 0; key < keys; ++key) {
      const float ds = p[key] * (dp[key] - dot) * a.params.scale;
      const int64_t place = first + static_cast<int64_t>(key);
      for (int64_t i = 0; i < a.value_width; ++i) dv[static_cast<size_t>(place * a.value_width + i)] += p[key] * out[i];
      for (int64_t i = 0; i < a.width; ++i) {
        dq[static_cast<size_t>(row * a.width + i)] += ds * k[static_cast<size_t>(place * a.width + i)];
        dk[static_cast<size_t>(place * a.width + i)] += ds * q[static_cast<size_t>(row * a.width + i)];
      }
    }
  }
  const std::vector<float>* gradients[] = {&dq, &dk, &dv};
  for (size_t i = 0; i < 3; ++i)
    store<float>(node.type, node.output(i).data, 0, 1, node.output(i).elements(), gradients[i]->data());
}

double attention_flops(const Node& node) {
  const Operand& q = node.input(node.in.size() > 3 && node.out.size() == 3 ? 1 : 0);
  return 4.0 * static_cast<double>(q.elements()) * static_cast<double>(node.input(1).sizes[1]);
}

// {x [d, S, H, B], sin, cos} -> y; sin and cos broadcast. Mode 0: the halves of d are the pairs.
void check_rotary(const Node& node) {
  require_counts(node, 3, 3, 1, 1);
  require_type(node, node.input(0), node.type, "x");
  require_type(node, node.output(0), node.type, "y");
  require_sizes(node, node.output(0), node.input(0).sizes, "y");
  require(node.input(0).sizes[0] % 2 == 0, node, "d is odd");
  for (const size_t i : {1, 2}) {
    require(is_floating(node.input(i).type), node, "sin and cos are floating");
    require_broadcast(node, node.input(i), node.input(0), "sin or cos");
    require(node.input(i).sizes[0] == node.input(0).sizes[0], node, "sin and cos have d numbers");
  }
  const auto params = params_of<RotaryParams>(node);
  require(params.mode == 0 || params.mode == 1, node, "mode ", params.mode);
  require(params.offset == 0, node, "an offset is not emulated");
}
template <bool kBackward>
void run_rotary(const Node& node) {
  const Operand& x = node.input(0);
  const bool pairs = params_of<RotaryParams>(node).mode == 1;
  const int64_t width = x.sizes[0], half = width / 2;
  std::vector<float> row(static_cast<size_t>(width)), sin(row), cos(row), out(row);
  const auto sine = strides_of(node.input(1).sizes), cosine = strides_of(node.input(2).sizes);
  const auto place = [&](int64_t index, const Sizes& sizes, const std::array<int64_t, kMostDims>& stride) {
    int64_t result = 0;
    for (int dim = 1; dim < x.sizes.rank; ++dim) {
      if (sizes[dim] > 1) result += index % x.sizes[dim] * stride[static_cast<size_t>(dim)];
      index /= x.sizes[dim];
    }
    return result;
  };
  for (int64_t i = 0; i < x.elements() / std::max<int64_t>(1, width); ++i) {
    load<float>(x.type, x.data, i * width, 1, width, row.data());
    load<float>(node.input(1).type, node.input(1).data, place(i, node.input(1).sizes, sine), 1, width, sin.data());
    load<float>(node.input(2).type, node.input(2).data, place(i, node.input(2).sizes, cosine), 1, width, cos.data());
    for (int64_t j = 0; j < width; ++j) {
      const int64_t other = pairs ? (j ^ 1) : (j < half ? j + half : j - half);
      const bool first = pairs ? j % 2 == 0 : j < half;
      const auto at = static_cast<size_t>(j), with = static_cast<size_t>(other);
      if (kBackward) out[at] = row[at] * cos[at] + (first ? 1.0f : -1.0f) * row[with] * sin[with];
      else out[at] = row[at] * cos[at] + (first ? -1.0f : 1.0f) * row[with] * sin[at];
    }
    store<float>(node.type, node.output(0).data, i * width, 1, width, out.data());
  }
}

}  // namespace

void add_attention(KernelTable& table) {
  table.add({"sdpa_recomp_fwd", Engine::kMme, kFloats, check_forward, run_forward, attention_flops, false});
  table.add({"sdpa_recomp_bwd", Engine::kMme, kFloats, check_backward, run_backward, attention_flops, false});
  table.add({"rotary_pos_embedding_fwd", Engine::kTpc, kFloats, check_rotary, run_rotary<false>, nullptr, false});
  table.add({"rotary_pos_embedding_bwd", Engine::kTpc, kFloats, check_rotary, run_rotary<true>, nullptr, false});
}

}  // namespace synapse_emulator
