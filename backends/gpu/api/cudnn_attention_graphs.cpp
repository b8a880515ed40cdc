// SPDX-License-Identifier: Apache-2.0
// The order of operations is that of cuDNN's documentation ("Scaled Dot Product Attention"), by which its engines
// recognise a graph.
#include "gpu/api/cudnn_attention_graphs.h"

namespace transom::gpu {
namespace {

using Element = CudnnGraph::Element;
using Memory = CudnnGraph::Memory;
using Pointwise = CudnnGraph::Pointwise;
using Reduction = CudnnGraph::Reduction;
constexpr auto kF32 = Element::kF32;
constexpr auto kOnDevice = Memory::kDevice;
constexpr CudnnExtents kOne = {1, 1, 1, 1};

// What both graphs consist of.
struct Parts {
  CudnnGraph& graph;
  const AttentionShape& s;
  Element element = s.dtype == TRANSOM_FLOAT16 ? Element::kF16 : Element::kBf16;
  CudnnExtents scores = {s.batch, s.heads, s.queries, s.keys}, rows = {s.batch, s.heads, s.queries, 1};
  // A token's heads lie side by side.
  CudnnExtents of_q = {s.queries * s.heads * s.head, s.head, s.heads* s.head, 1};
  CudnnExtents of_k = {s.keys * s.key_heads * s.head, s.head, s.key_heads* s.head, 1};

  void* like_q(AttentionTensor id) {
    return graph.tensor(id, element, {s.batch, s.heads, s.queries, s.head}, of_q, kOnDevice);
  }
  void* like_k(AttentionTensor id) {
    return graph.tensor(id, element, {s.batch, s.key_heads, s.keys, s.head}, of_k, kOnDevice);
  }
  void* turned_k(AttentionTensor id) {
    return graph.tensor(id, element, {s.batch, s.key_heads, s.head, s.keys}, {of_k[0], of_k[1], 1, of_k[2]}, kOnDevice);
  }
  void* row_numbers(AttentionTensor id) {
    return graph.tensor(id, kF32, rows, {s.heads * s.queries, s.queries, 1, 1}, kOnDevice);
  }
  void* number(AttentionTensor id) { return graph.tensor(id, kF32, kOne, kOne, Memory::kHost); }

  void* score_of(Pointwise mode, void* x, void* y) {
    void* const to = graph.inside(kF32, scores);
    graph.pointwise(mode, x, y, to);
    return to;
  }

  // The scores of all pairs, scaled, biased and masked.
  void* seen_scores(void* q, void* k, void* scale) {
    void* const products = graph.inside(kF32, scores);
    graph.multiply(q, k, products);
    void* seen = score_of(Pointwise::kMultiply, products, scale);
    if (s.biased()) {
      const auto [batch, heads, queries] = s.bias;
      void* const bias = graph.tensor(kBias, kF32, {batch, heads, queries, s.keys},
                                      {heads * queries * s.keys, queries * s.keys, s.keys, 1}, kOnDevice);
      seen = score_of(Pointwise::kMax, score_of(Pointwise::kAdd, seen, bias), number(kLeast));
    }
    if (!s.causal) return seen;
    void* const row = graph.inside(Element::kI32, scores);
    void* const column = graph.inside(Element::kI32, scores);
    void* const visible = graph.inside(Element::kBool, scores);
    void* const masked = graph.inside(kF32, scores);
    graph.index(2, seen, row);
    graph.index(3, seen, column);
    graph.pointwise(Pointwise::kAtLeast, row, column, visible);
    graph.select(visible, seen, number(kHidden), masked);
    return masked;
  }

  // scores [.., queries, keys] in the operands' type with keys as rows.
  void* turned(void* of) {
    void* const to = graph.inside(element, {s.batch, s.heads, s.keys, s.queries},
                                  {s.heads * s.queries * s.keys, s.queries * s.keys, 1, s.keys});
    graph.reshape(of, to);
    return to;
  }

  // turned x, summed over the heads that share a key.
  void multiply_for_keys(void* turned, void* x, void* to) {
    if (s.heads == s.key_heads) return graph.multiply(turned, x, to);
    void* const of_all_heads = graph.inside(element, {s.batch, s.heads, s.keys, s.head});
    graph.multiply(turned, x, of_all_heads);
    graph.reduce(Reduction::kAdd, of_all_heads, to);
  }
};

}  // namespace

CudnnDescriptor attention_graph(CudnnGraph& graph, const AttentionShape& shape, void* handle, bool statistics) {
  Parts parts{graph, shape};
  void *const q = parts.like_q(kQ), *const k = parts.turned_k(kK), *const v = parts.like_k(kV);
  void *const out = parts.like_q(kOut), *const scale = parts.number(kScale);
  void* const seen = parts.seen_scores(q, k, scale);
  void* const largest = graph.inside(kF32, parts.rows);
  void* const sum = graph.inside(kF32, parts.rows);
  void* const weights = graph.inside(parts.element, parts.scores);
  graph.reduce(Reduction::kMax, seen, largest);
  void* const below = parts.score_of(Pointwise::kSubtract, seen, largest);
  void* const exponentials = parts.score_of(Pointwise::kExp, below, nullptr);
  graph.reduce(Reduction::kAdd, exponentials, sum);
  if (statistics) {
    void* const log = graph.inside(kF32, parts.rows);
    graph.pointwise(Pointwise::kLog, sum, nullptr, log);
    graph.pointwise(Pointwise::kAdd, largest, log, parts.row_numbers(kStatistics));
  }
  graph.pointwise(Pointwise::kDivide, exponentials, sum, weights);
  graph.multiply(weights, v, out);
  return graph.finished(handle);
}

CudnnDescriptor attention_gradient_graph(CudnnGraph& graph, const AttentionShape& shape, void* handle) {
  Parts parts{graph, shape};
  void *const q = parts.like_q(kQ), *const k = parts.turned_k(kK), *const v = parts.turned_k(kV);
  void *const out = parts.like_q(kOut), *const dout = parts.like_q(kDout), *const scale = parts.number(kScale);
  void *const statistics = parts.row_numbers(kStatistics), *const shift = parts.row_numbers(kShift);
  const CudnnExtents like_out = {shape.batch, shape.heads, shape.queries, shape.head};
  void* const mixed = graph.inside(kF32, like_out);
  graph.pointwise(Pointwise::kMultiply, dout, out, mixed);
  graph.reduce(Reduction::kAdd, mixed, shift);

  void* const below = parts.score_of(Pointwise::kSubtract, parts.seen_scores(q, k, scale), statistics);
  void* const weights = parts.score_of(Pointwise::kExp, below, nullptr);
  parts.multiply_for_keys(parts.turned(weights), dout, parts.like_k(kDv));

  void* const dweights = graph.inside(kF32, parts.scores);
  graph.multiply(dout, v, dweights);
  void* const shifted = parts.score_of(Pointwise::kSubtract, dweights, shift);
  void* const dscores = parts.score_of(Pointwise::kMultiply, shifted, weights);
  void* const dproducts = parts.score_of(Pointwise::kMultiply, dscores, scale);
  parts.multiply_for_keys(parts.turned(dproducts), q, parts.like_k(kDk));

  // Written where it belongs, and not to sums of f32 to which groups add as they come: so its bits are the same at
  // every run, for a workspace as large as the scores.
  void* const keys = graph.inside(parts.element, {shape.batch, shape.key_heads, shape.keys, shape.head}, parts.of_k);
  graph.reshape(k, keys);
  graph.multiply(dproducts, keys, parts.like_q(kDq));
  return graph.finished(handle);
}

}  // namespace transom::gpu
