// SPDX-License-Identifier: Apache-2.0
// partial_attention and its gradient: what ring attention (Liu et al., 2023) computes of each block of keys that comes
// round, and joins by the log-sum-exp of the scores (Dao et al., 2022).
#include "graph/ops/attention/partial_attention.h"

#include "graph/ops/attention/attention_parts.h"
#include "graph/ops/records.h"
#include "graph/ops/rules.h"

namespace transom {
namespace {

using Tensors = std::vector<Tensor>;

Type statistics_type(const Inference& in) {
  return {wide_type(in.dtype(0)), {in.shape(0)[0], in.shape(0)[2], in.shape(0)[1]}};
}

size_t check_partial_inputs(const Inference& in) {
  const Attributes& attributes = in.attributes;
  check(in, attributes.has("offset"), "expected an offset of the queries");
  expect_between(in, {attributes.get_int("offset")}, -(int64_t{1} << 40), int64_t{1} << 40, "an offset");
  check(in, in.inputs.size() < 3 || in.inputs[1].shape.size() != 4 || in.inputs[1].shape[1] > 0,
        "expected at least one key");
  const size_t count = check_attention_inputs(in);
  if (!attributes.has("dropout")) return count;
  const Axes &whole = attributes.get_ints("draws_of"), &at = attributes.get_ints("draws_at");
  check(in, whole.size() == 3 && at.size() == 4, "expected three extents and four places of draws");
  const Shape mine = {in.shape(0)[0], in.shape(0)[2], in.shape(0)[1], in.shape(1)[1]};
  expect_between(in, at, 0, int64_t{1} << 40, "places of draws");
  for (size_t i = 0; i < 3; ++i)
    check(in, at[i + 1] + mine[i + 1] <= whole[i], "draws for {} from {} on are not among {}", mine, at, whole);
  return count;
}

Attributes partial_attributes(const AttentionOptions& options, bool biased, int64_t offset,
                              const PartialDropout& dropout) {
  Attributes attributes{{"scale", options.scale},
                        {"causal", static_cast<int64_t>(options.causal)},
                        {"sliding_window", options.sliding_window},
                        {"soft_cap", options.soft_cap},
                        {"biased", static_cast<int64_t>(biased)},
                        {"offset", offset}};
  if (!dropout.key.defined()) return attributes;
  attributes.set("dropout", dropout.probability);
  attributes.set("draws_of", dropout.whole);
  attributes.set("draws_at", dropout.at);
  return attributes;
}

// What weights [B, H, T, S] are multiplied with.
Tensor kept_weights(const AttentionParts& p, const Attributes& attributes, const Tensor& weights) {
  if (!p.key.defined()) return weights;
  const Axes &whole = attributes.get_ints("draws_of"), &at = attributes.get_ints("draws_at");
  Tensor kept = dropout(full({at[0] + p.B, whole[0], whole[1], whole[2]}, 1, weights.dtype()), p.key, p.dropout);
  const Shape& shape = weights.shape();
  for (size_t i = 0; i < 4; ++i) kept = slice(kept, static_cast<int64_t>(i), at[i], at[i] + shape[i]);
  return weights * kept;
}

std::vector<Sample> partial_samples(bool gradient) {
  std::vector<Sample> samples;
  const auto add = [&](DType dtype, Shape q, Shape k, int64_t e, AttentionOptions options, int64_t offset, Shape bias,
                       double dropped = 0) {
    std::vector<Type> inputs = {{dtype, q}, {dtype, k}, {dtype, {k[0], k[1], k[2], e}}};
    if (!bias.empty()) inputs.push_back({DType::kFloat32, bias});
    PartialDropout dropout;
    if (dropped > 0) {
      inputs.push_back({DType::kInt64, {2}});
      dropout = {make_input(inputs.back()), dropped, {q[2] + 1, q[1] + 2, k[1] + 5}, {1, 1, 0, 3}};
    }
    if (gradient) {
      for (int i = 0; i < 3; ++i) inputs.push_back({wide_type(dtype), {q[0], q[2], q[1]}});
      inputs.push_back({dtype, {q[0], q[1], q[2], e}});
    }
    // Sums are above 0.
    samples.push_back(
        {inputs, partial_attributes(options, !bias.empty(), offset, dropout), gradient ? 0.5 : -1.0, 1.0, 1'000'000});
  };
  for (const DType dtype : {DType::kFloat32, DType::kBFloat16}) {
    add(dtype, {1, 3, 2, 2}, {1, 4, 2, 2}, 3, {.scale = 0.7, .causal = false}, 0, {});
    add(dtype, {2, 5, 2, 3}, {2, 5, 2, 3}, 3, {.scale = 0.5}, 0, {});
    add(dtype, {1, 4, 4, 2}, {1, 3, 2, 2}, 2, {.scale = 0.5, .sliding_window = 5}, 3, {1, 1, 1, 3});
    add(dtype, {1, 3, 2, 2}, {1, 4, 1, 2}, 2, {.scale = 0.5, .causal = false, .soft_cap = 2.0}, 0, {1, 2, 3, 4});
    add(dtype, {2, 70, 4, 16}, {2, 66, 2, 16}, 16, {.scale = 0.1, .causal = false}, 0, {2, 1, 1, 66});
    add(dtype, {1, 150, 2, 8}, {1, 150, 2, 8}, 8, {.scale = 0.1}, 0, {});
    add(dtype, {2, 5, 2, 3}, {2, 4, 1, 3}, 3, {.scale = 0.5, .causal = false}, 0, {}, 0.25);
    add(dtype, {1, 70, 2, 8}, {1, 70, 2, 8}, 8, {.scale = 0.1}, 0, {1, 1, 1, 70}, 0.1);
  }
  return samples;
}

const Operation kPartialAttention = {
    .name = "partial_attention",
    .kind = OperationKind::kComposite,
    .documentation =
        "(q [B, T, H, d], k [B, S, G, d], v [B, S, G, e], bias): attention to keys that are some of all, as "
        "(softmax(scores) v [B, T, H, e], the largest score [B, H, T], the sum of e^(score - largest) [B, H, T]). "
        "Query t stands at t + `offset` among the keys; with `dropout` a key follows the bias, and weights are drawn "
        "by their places from `draws_at` (row, head, query, key) in `draws_of` (heads, queries, keys) of the whole; "
        "other "
        "attributes as in attention.",
    .gradient_jumps = true,
    .category = Category::kAttention,
    .flops = attention_flops<false>,
    .infer = [](const Inference& in) -> std::vector<Type> {
      check(in, in.inputs.size() == check_partial_inputs(in), "unexpected inputs");
      const Shape& q = in.shape(0);
      return {{in.dtype(0), {q[0], q[1], q[2], in.shape(2)[3]}}, statistics_type(in), statistics_type(in)};
    },
    .decompose = [](std::span<const Tensor> in, const Attributes& attributes) -> Tensors {
      const AttentionParts p = parts_of_attention(in, attributes);
      const Tensor scores = scores_of(p).all, largest = reduce_max(scores, {-1}, true);
      const Tensor e = exp(scores - largest), sum = reduce_sum(e, {-1}, true);
      const Tensor weights =
          reshape(cast(kept_weights(p, attributes, e / sum), p.v.dtype()), {p.B, p.G, p.group(), p.T, p.S});
      const Tensor mixed = ungrouped(p, wide_product(weights, p.v, {{0, 1}, {0, 2}, {4}, {1}}));
      const Shape rows = {p.B, p.H, p.T};
      return {cast(mixed, p.v.dtype()), reshape(largest, rows), reshape(sum, rows)};
    },
    .samples = [] { return partial_samples(false); }};

const Operation kPartialAttentionGradient = {
    .name = "partial_attention_gradient",
    .kind = OperationKind::kComposite,
    .documentation =
        "(the inputs of partial_attention, largest, sum, shift [B, H, T], dy): what these keys contribute to the "
        "gradients for (q, k, v) of attention to all keys, whose scores' largest and sum of e^(score - largest) are "
        "given; shift is the sum of dy times the result over a head.",
    .gradient_jumps = true,
    .category = Category::kAttention,
    .flops = attention_flops<true>,
    .infer = [](const Inference& in) -> std::vector<Type> {
      const size_t count = check_partial_inputs(in);
      check(in, in.inputs.size() == count + 4, "expected the inputs of partial_attention and four more");
      for (size_t i = count; i < count + 3; ++i)
        check(in, in.inputs[i] == statistics_type(in), "expected {}, found {}", statistics_type(in), in.inputs[i]);
      const Shape& q = in.shape(0);
      check(in, in.inputs.back() == Type{in.dtype(0), {q[0], q[1], q[2], in.shape(2)[3]}},
            "{} is no cotangent of the result", in.inputs.back());
      return {in.inputs[0], in.inputs[1], in.inputs[2]};
    },
    .decompose = [](std::span<const Tensor> in, const Attributes& attributes) -> Tensors {
      const AttentionParts p = parts_of_attention(in, attributes);
      const size_t next = in.size() - 4;
      const auto column = [&](size_t i) { return reshape(in[next + i], {p.B, p.H, p.T, 1}); };
      const AttentionScores scores = scores_of(p);
      const Tensor weights = exp(scores.all - column(0)) / column(1), dy = grouped(p, in.back());
      const Tensor kept =
          reshape(cast(kept_weights(p, attributes, weights), p.v.dtype()), {p.B, p.G, p.group(), p.T, p.S});
      const Tensor dv = wide_product(kept, dy, {{0, 1}, {0, 1}, {2, 3}, {2, 3}});  // [B, G, S, e]
      const Tensor dweights =
          kept_weights(p, attributes, reshape(wide_product(dy, p.v, {{0, 1}, {0, 2}, {4}, {3}}), {p.B, p.H, p.T, p.S}));
      const ScoreGradients made = gradients_of_scores(p, scores.capped, weights * (dweights - column(2)));
      return {made.q, made.k, cast(permute(dv, {0, 2, 1, 3}), p.v.dtype())};
    },
    .samples = [] { return partial_samples(true); }};

// [B, H, T] as it goes with [B, T, H, e]
Tensor beside_heads(const Tensor& x) { return unsqueeze(permute(x, {0, 2, 1}), 3); }

}  // namespace

const RegisterOperations kRegisteredPartialAttention{&kPartialAttention, &kPartialAttentionGradient};

PartialAttention partial_attention(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& bias,
                                   const AttentionOptions& options, int64_t offset, const PartialDropout& dropout) {
  Tensors inputs{q, k, v};
  if (bias.defined()) inputs.push_back(cast(bias, wide_type(q.dtype())));
  if (dropout.key.defined()) inputs.push_back(dropout.key);
  const Tensors made =
      make_tensors(kPartialAttention, std::move(inputs), partial_attributes(options, bias.defined(), offset, dropout));
  return {made[0], made[1], made[2]};
}

PartialAttention joined(const PartialAttention& a, const PartialAttention& b) {
  const Tensor largest = maximum(a.largest, b.largest);
  const Tensor of_a = a.sum * exp(a.largest - largest), of_b = b.sum * exp(b.largest - largest), sum = of_a + of_b;
  const DType wide = sum.dtype(), narrow = a.out.dtype();
  const Tensor out = cast(a.out, wide) * beside_heads(of_a / sum) + cast(b.out, wide) * beside_heads(of_b / sum);
  return {cast(out, narrow), largest, sum};
}

PartialAttentionGradients partial_attention_gradients(const Tensor& q, const Tensor& k, const Tensor& v,
                                                      const Tensor& bias, const Tensor& largest, const Tensor& sum,
                                                      const Tensor& shift, const Tensor& dy,
                                                      const AttentionOptions& options, int64_t offset,
                                                      const PartialDropout& dropout) {
  Tensors inputs{q, k, v};
  if (bias.defined()) inputs.push_back(cast(bias, wide_type(q.dtype())));
  if (dropout.key.defined()) inputs.push_back(dropout.key);
  inputs.insert(inputs.end(), {largest, sum, shift, dy});
  const Tensors made = make_tensors(kPartialAttentionGradient, std::move(inputs),
                                    partial_attributes(options, bias.defined(), offset, dropout));
  return {made[0], made[1], made[2]};
}

}  // namespace transom
