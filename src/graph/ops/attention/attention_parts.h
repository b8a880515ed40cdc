// SPDX-License-Identifier: Apache-2.0
// What the records of attention share: inputs and attributes by name, and the scores.
#pragma once

#include <span>

#include "graph/ir/operation.h"
#include "graph/ops/rules.h"

namespace transom {

// Bias and key are optional: a key is there where `dropout` is above 0.
struct AttentionParts {
  Tensor q, k, v, bias, key;
  AttentionOptions options;
  double dropout;
  int64_t B, T, S, H, G, d, e;
  int64_t offset;  // the place of the first query among the keys
  int64_t group() const { return H / G; }
};
AttentionParts parts_of_attention(std::span<const Tensor> in, const Attributes& attributes);

// Checks q, k, v, bias and key; returns how many inputs these are.
size_t check_attention_inputs(const Inference& in);

// Of q k and the weights times v; backward: of the scores again, and two for each of the three gradients' sides.
template <bool backward>
double attention_flops(const CostRequest& cost) {
  const Shape &q = cost.inputs[0].shape, &v = cost.inputs[2].shape;
  const double pairs = static_cast<double>(q[0] * q[2] * q[1]) * static_cast<double>(v[1]);
  const double d = static_cast<double>(q[3]), e = static_cast<double>(v[3]);
  return 2 * pairs * (backward ? 3 * d + 2 * e : d + e);
}

// What scores are kept in.
DType wide_type(DType dtype);
// In f32 for 16-bit types, of operands as they are, whatever the node was computed under.
Tensor wide_product(const Tensor& x, const Tensor& y, const DotAxes& axes);

// q or the cotangent with the heads that share keys side by side: [B, T, H, d] -> [B, G, H / G, T, d]
Tensor grouped(const AttentionParts& p, const Tensor& x);
Tensor ungrouped(const AttentionParts& p, const Tensor& x);  // [B, G, H / G, T, d] -> [B, T, H, d]

struct AttentionScores {
  Tensor capped;  // before biases, for the gradient of the cap
  Tensor all;     // [B, H, T, S]
};
AttentionScores scores_of(const AttentionParts& p);

// The gradients of what the scores were made of, given theirs as the bias is added to them, [B, H, T, S].
struct ScoreGradients {
  Tensor q, k;
};
ScoreGradients gradients_of_scores(const AttentionParts& p, const Tensor& capped, const Tensor& dscores);

}  // namespace transom
