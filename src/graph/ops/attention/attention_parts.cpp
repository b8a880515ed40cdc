// SPDX-License-Identifier: Apache-2.0
#include "graph/ops/attention/attention_parts.h"

#include "graph/ops/records.h"

namespace transom {
namespace {

double dropout_of(const Attributes& attributes) {
  return attributes.has("dropout") ? attributes.get_float("dropout") : 0;
}

bool is_16_bit(DType dtype) { return dtype == DType::kBFloat16 || dtype == DType::kFloat16; }

// Which keys the queries see, the first of which stands at `offset` among the keys: [T, S].
Tensor visible_before(int64_t T, int64_t S, int64_t offset, int64_t sliding_window) {
  const Tensor query = iota({T, S}, 0) + static_cast<double>(offset), key = iota({T, S}, 1);
  const Tensor causal = less_equal(key, query);
  return sliding_window > 0 ? logical_and(causal, greater(key, query - static_cast<double>(sliding_window))) : causal;
}

// The given bias and the mask of places together. What both hide must not be lower than what one hides: a row that sees
// nothing is then the mean of all values, as in Transformers.
Tensor all_biases(const AttentionParts& p, DType dtype) {
  const Tensor bias = p.bias.defined() ? cast(p.bias, dtype) : p.bias;
  if (!p.options.causal || (p.offset + 1 >= p.S && p.options.sliding_window == 0)) return bias;
  const Tensor visible = visible_before(p.T, p.S, p.offset, p.options.sliding_window);
  const Tensor places = select(visible, zeros(visible.shape(), dtype), full(visible.shape(), kMaskedScore, dtype));
  return bias.defined() ? maximum(bias + places, constant(kMaskedScore, dtype)) : places;
}

}  // namespace

AttentionParts parts_of_attention(std::span<const Tensor> in, const Attributes& attributes) {
  AttentionParts p{.q = in[0], .k = in[1], .v = in[2]};
  p.options = {.scale = attributes.get_float("scale"),
               .causal = attributes.get_int("causal") != 0,
               .sliding_window = attributes.get_int("sliding_window"),
               .soft_cap = attributes.get_float("soft_cap")};
  p.dropout = dropout_of(attributes);
  size_t next = 3;
  if (attributes.get_int("biased")) p.bias = in[next++];
  if (p.dropout > 0) p.key = in[next];
  p.B = p.q.dim(0), p.T = p.q.dim(1), p.H = p.q.dim(2), p.d = p.q.dim(3);
  p.S = p.k.dim(1), p.G = p.k.dim(2), p.e = p.v.dim(3);
  p.offset = attributes.get_int("offset", p.S - p.T);
  return p;
}

size_t check_attention_inputs(const Inference& in) {
  const double dropout = dropout_of(in.attributes);
  const bool biased = in.attributes.get_int("biased") != 0, keyed = dropout > 0;
  const size_t count = 3 + (biased ? 1 : 0) + (keyed ? 1 : 0);
  check(in, in.inputs.size() >= count, "expected {} inputs, found {}", count, in.inputs.size());
  expect_floating(in, 0);
  for (size_t i = 0; i < 3; ++i)
    check(in, in.rank(i) == 4 && in.dtype(i) == in.dtype(0), "expected q, k and v of four axes and one type, found {}",
          in.inputs[i]);
  const Shape &q = in.shape(0), &k = in.shape(1), &v = in.shape(2);
  check(in, q[0] == k[0] && q[3] == k[3] && k[0] == v[0] && k[1] == v[1] && k[2] == v[2],
        "q {}, k {} and v {} do not fit: expected [B, T, H, d], [B, S, G, d] and [B, S, G, e]", q, k, v);
  check(in, k[2] > 0 && q[2] % k[2] == 0, "{} heads of queries do not share {} heads of keys", q[2], k[2]);
  if (biased) {
    expect_floating(in, 3);
    const Shape full = {q[0], q[2], q[1], k[1]};
    check(in, in.rank(3) == 4, "expected a bias of four axes");
    for (size_t i = 0; i < 4; ++i)
      check(in, in.shape(3)[i] == 1 || in.shape(3)[i] == full[i], "a bias of {} does not broadcast to {}", in.shape(3),
            full);
  }
  if (keyed)
    check(in, in.inputs[count - 1] == Type{DType::kInt64, {2}}, "expected a key of type i64[2], found {}",
          in.inputs[count - 1]);
  check(in, dropout >= 0 && dropout < 1, "a dropout of {} is outside [0, 1)", dropout);
  return count;
}

DType wide_type(DType dtype) { return is_16_bit(dtype) ? DType::kFloat32 : dtype; }

Tensor wide_product(const Tensor& x, const Tensor& y, const DotAxes& axes) {
  return make_tensor(op::dot_general, {x, y},
                     {{"x_batch", axes.x_batch},
                      {"y_batch", axes.y_batch},
                      {"x_contract", axes.x_contract},
                      {"y_contract", axes.y_contract},
                      {"dtype", static_cast<int64_t>(wide_type(x.dtype()))}});
}

Tensor grouped(const AttentionParts& p, const Tensor& x) {
  return permute(reshape(x, {p.B, p.T, p.G, p.group(), x.dim(3)}), {0, 2, 3, 1, 4});
}
Tensor ungrouped(const AttentionParts& p, const Tensor& x) {
  return reshape(permute(x, {0, 3, 1, 2, 4}), {p.B, p.T, p.H, x.dim(4)});
}

AttentionScores scores_of(const AttentionParts& p) {
  Tensor scores = p.group() == 1
                      ? wide_product(p.q, p.k, {{0, 2}, {0, 2}, {3}, {3}})
                      : reshape(wide_product(grouped(p, p.q), p.k, {{0, 1}, {0, 2}, {4}, {3}}), {p.B, p.H, p.T, p.S});
  if (p.options.scale != 1) scores = scores * p.options.scale;
  if (p.options.soft_cap > 0) scores = tanh(scores * (1 / p.options.soft_cap)) * p.options.soft_cap;
  const Tensor bias = all_biases(p, scores.dtype());
  return {scores, bias.defined() ? scores + bias : scores};
}

ScoreGradients gradients_of_scores(const AttentionParts& p, const Tensor& capped, const Tensor& dscores) {
  Tensor inner = dscores;
  if (p.options.soft_cap > 0) {
    const Tensor share = capped * (1 / p.options.soft_cap);
    inner = inner * (1.0 - share * share);
  }
  inner = reshape(cast(inner * p.options.scale, p.q.dtype()), {p.B, p.G, p.group(), p.T, p.S});
  const Tensor dq = wide_product(inner, p.k, {{0, 1}, {0, 2}, {4}, {1}});
  const Tensor dk = wide_product(inner, grouped(p, p.q), {{0, 1}, {0, 1}, {2, 3}, {2, 3}});  // [B, G, S, d]
  return {cast(ungrouped(p, dq), p.q.dtype()), cast(permute(dk, {0, 2, 1, 3}), p.k.dtype())};
}

}  // namespace transom
