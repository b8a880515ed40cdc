// SPDX-License-Identifier: Apache-2.0
// attention of several texts in one row, as kernels for sequences of varying lengths have it (Dao et al., 2022): each
// query says which keys are of its own text.
#include "graph/ops/attention/ranged_attention.h"

#include "graph/ops/attention/attention_parts.h"
#include "graph/ops/attention/attention_samples.h"
#include "graph/ops/computing.h"
#include "graph/ops/records.h"
#include "graph/ops/rules.h"

namespace transom {
namespace {

using Tensors = std::vector<Tensor>;

// The keys that each query sees, bool [B, H, T, S].
Tensor in_range(const AttentionParts& p, const Tensor& ranges) {
  const Shape all = {p.B, 1, p.T, p.S};
  const Tensor key = iota(all, 3);
  const auto bound = [&](int64_t side) {
    return broadcast_to(reshape(slice(ranges, 2, side, side + 1), {p.B, 1, p.T, 1}), all);
  };
  Tensor visible = logical_and(greater_equal(key, bound(0)), less(key, bound(1)));
  if (p.options.causal) {
    const Tensor query = iota(all, 2) + static_cast<double>(p.offset);
    visible = logical_and(visible, less_equal(key, query));
    if (p.options.sliding_window > 0)
      visible = logical_and(visible, greater(key, query - static_cast<double>(p.options.sliding_window)));
  }
  return broadcast_to(visible, {p.B, p.H, p.T, p.S});
}

struct RangedWeights {
  Tensor capped;   // scores before the bias
  Tensor weights;  // [B, H, T, S]
};

RangedWeights weights_in_range(AttentionParts p, const Tensor& ranges) {
  const Tensor visible = in_range(p, ranges);
  p.options.causal = false;  // `visible` says all
  const AttentionScores scores = scores_of(p);
  const Tensor seen = select(visible, scores.all, full(scores.all.shape(), kMaskedScore, scores.all.dtype()));
  const Tensor e = exp(seen - reduce_max(seen, {-1}, true)) * cast(visible, seen.dtype());
  const Tensor total = reduce_sum(e, {-1}, true), none = zeros(total.shape(), total.dtype());
  return {scores.capped, e / select(equal(total, none), full(total.shape(), 1, total.dtype()), total)};
}

Tensor dropped_weights(const AttentionParts& p, const Tensor& x) {
  return p.key.defined() ? dropout(x, p.key, p.dropout) : x;
}

const Tensor& ranges_among(std::span<const Tensor> in, const AttentionParts& p) {
  return in[3 + (p.bias.defined() ? 1 : 0) + (p.key.defined() ? 1 : 0)];
}

// Where a row's bits may not depend on company, the text is told by a bias: a device then computes it as it does
// attention to pages, whose own decomposition is the same operation.
Tensors ranged_by_bias(const AttentionParts& p, const Tensor& ranges, Attributes attributes) {
  AttentionParts one = p;  // of one head
  one.H = 1;
  const Tensor visible = in_range(one, ranges);
  const Tensor bias = select(visible, zeros(visible.shape()), full(visible.shape(), kMaskedScore));
  attributes.set("biased", int64_t{1});
  const Tensor y = make_tensor(find_operation("attention"), {p.q, p.k, p.v, bias}, std::move(attributes));
  const Shape rows{p.B, p.T, 1, 1};
  const Tensor sees = reshape(reduce_max(cast(visible, DType::kFloat32), {3}), rows);
  const Tensor any = broadcast_to(greater(sees, zeros(rows)), y.shape());
  return {select(any, y, zeros(y.shape(), y.dtype()))};
}

Tensors decompose_ranged(std::span<const Tensor> in, const Attributes& attributes) {
  const AttentionParts p = parts_of_attention(in, attributes);
  if (attributes.has(kBatchInvariant) && !p.bias.defined() && !p.key.defined())
    return ranged_by_bias(p, ranges_among(in, p), attributes);
  const Tensor weights = dropped_weights(p, weights_in_range(p, ranges_among(in, p)).weights);
  const Tensor narrow = reshape(cast(weights, p.v.dtype()), {p.B, p.G, p.group(), p.T, p.S});
  return {cast(ungrouped(p, wide_product(narrow, p.v, {{0, 1}, {0, 2}, {4}, {1}})), p.v.dtype())};
}

Tensors decompose_ranged_gradient(std::span<const Tensor> in, const Attributes& attributes) {
  const AttentionParts p = parts_of_attention(in, attributes);
  const Shape by_group = {p.B, p.G, p.group(), p.T, p.S}, by_head = {p.B, p.H, p.T, p.S};
  const RangedWeights made = weights_in_range(p, ranges_among(in, p));
  const Tensor dy = grouped(p, cast(in.back(), p.v.dtype()));
  const Tensor kept = reshape(cast(dropped_weights(p, made.weights), p.v.dtype()), by_group);
  const Tensor dv = wide_product(kept, dy, {{0, 1}, {0, 1}, {2, 3}, {2, 3}});  // [B, G, S, e]
  const Tensor dweights = dropped_weights(p, reshape(wide_product(dy, p.v, {{0, 1}, {0, 2}, {4}, {3}}), by_head));
  const Tensor dscores = made.weights * (dweights - reduce_sum(made.weights * dweights, {-1}, true));
  const ScoreGradients of_scores = gradients_of_scores(p, made.capped, dscores);
  return {of_scores.q, of_scores.k, cast(permute(dv, {0, 2, 1, 3}), p.v.dtype())};
}

// Checks all but a cotangent; returns how many inputs these are.
size_t check_ranged_inputs(const Inference& in) {
  const size_t count = check_attention_inputs(in);
  check(in, in.inputs.size() > count, "expected ranges behind {} inputs", count);
  const Type expected{DType::kInt64, {in.shape(0)[0], in.shape(0)[1], 2}};
  check(in, in.inputs[count] == expected, "expected ranges of {}, found {}", expected, in.inputs[count]);
  return count + 1;
}

std::vector<Sample> ranged_samples(bool gradient) {
  std::vector<Sample> samples;
  const auto add = [&](DType dtype, Shape q, Shape k, int64_t e, AttentionOptions options, Shape bias, double dropout) {
    samples.push_back(sample_of_attention({dtype, q, k, e, options, bias, dropout}, {{DType::kInt64, {q[0], q[1], 2}}},
                                          gradient, k[1] + 1));
  };
  for (const DType dtype : {DType::kFloat32, DType::kBFloat16}) {
    add(dtype, {1, 3, 2, 2}, {1, 4, 2, 2}, 3, {.scale = 0.7, .causal = false}, {}, 0);
    add(dtype, {2, 5, 2, 3}, {2, 5, 2, 3}, 3, {.scale = 0.5}, {}, 0);
    add(dtype, {1, 7, 4, 2}, {1, 7, 2, 2}, 2, {.scale = 1.0, .sliding_window = 3}, {}, 0);
    add(dtype, {2, 3, 2, 2}, {2, 3, 1, 2}, 2, {.scale = 0.5, .causal = false, .soft_cap = 2.0}, {2, 1, 1, 3}, 0);
    add(dtype, {1, 4, 2, 2}, {1, 4, 2, 2}, 2, {.scale = 0.5}, {1, 2, 4, 4}, 0.25);
    add(dtype, {2, 70, 4, 16}, {2, 70, 2, 16}, 16, {.scale = 0.25}, {1, 4, 1, 70}, 0.1);
    add(dtype, {1, 150, 2, 8}, {1, 150, 2, 8}, 8, {.scale = 0.25, .causal = false}, {}, 0.0);
  }
  return samples;
}

const Operation kRangedAttentionGradient = {
    .name = "ranged_attention_gradient",
    .kind = OperationKind::kComposite,
    .documentation = "(the inputs of ranged_attention, dy): the gradients for (q, k, v).",
    .gradient_jumps = true,
    .category = Category::kAttention,
    .flops = attention_flops<true>,
    .infer = [](const Inference& in) -> std::vector<Type> {
      check(in, in.inputs.size() == check_ranged_inputs(in) + 1, "expected the inputs of attention and a cotangent");
      return {in.inputs[0], in.inputs[1], in.inputs[2]};
    },
    .decompose = decompose_ranged_gradient,
    .samples = [] { return ranged_samples(true); }};

const Operation kRangedAttention = {
    .name = "ranged_attention",
    .kind = OperationKind::kComposite,
    .documentation =
        "(the inputs of attention, ranges [B, T, 2]): attention in which query t of row b sees the keys from "
        "ranges[b, t, 0] up to but not including ranges[b, t, 1] alone, and of these what `causal` and "
        "`sliding_window` let it see; 0 where that is nothing.",
    .gradient_jumps = true,  // that of a learned bias is taken through rounded weights
    .category = Category::kAttention,
    .autocast = AutocastClass::kLow,
    .flops = attention_flops<false>,
    .infer = [](const Inference& in) -> std::vector<Type> {
      check(in, in.inputs.size() == check_ranged_inputs(in), "unexpected inputs");
      const Shape& q = in.shape(0);
      return {{in.dtype(0), {q[0], q[1], q[2], in.shape(2)[3]}}};
    },
    .decompose = decompose_ranged,
    .gradient = [](const GradientRequest& request) -> Tensors {
      const AttentionParts p = parts_of_attention(request.inputs, request.attributes);
      if (p.bias.defined() && request.wanted(3)) return {};  // a learned bias: by the decomposition
      Tensors result(request.inputs.size()), inputs(request.inputs.begin(), request.inputs.end());
      inputs.push_back(cast(request.cotangents[0], p.v.dtype()));
      const Tensors made = make_tensors(kRangedAttentionGradient, inputs, request.attributes);
      std::copy(made.begin(), made.end(), result.begin());
      return result;
    },
    .samples = [] { return ranged_samples(false); }};

}  // namespace

const RegisterOperations kRegisteredRangedAttention{&kRangedAttention, &kRangedAttentionGradient};

Tensor ranged_attention(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& bias, const Tensor& ranges,
                        const AttentionOptions& options, const Computing& computing, const Tensor& key,
                        double dropout) {
  Tensors inputs = autocast_inputs(kRangedAttention, {q, k, v}, computing);
  if (bias.defined()) inputs.push_back(cast(bias, wide_type(inputs[0].dtype())));
  if (dropout > 0) inputs.push_back(key);
  inputs.push_back(ranges);
  Attributes attributes = attention_attributes(options, bias.defined(), dropout);
  keep_rows_apart(attributes, computing);
  return make_tensor(kRangedAttention, std::move(inputs), std::move(attributes));
}

}  // namespace transom
