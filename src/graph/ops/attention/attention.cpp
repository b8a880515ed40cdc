// SPDX-License-Identifier: Apache-2.0
// attention: scaled dot products (Vaswani et al., 2017) of grouped heads (Ainslie et al., 2023) as one composite, which
// a device may run in blocks that never hold the scores (Dao et al., 2022). The gradient recomputes them.
#include "graph/ops/attention/attention_parts.h"
#include "graph/ops/attention/attention_samples.h"
#include "graph/ops/computing.h"
#include "graph/ops/records.h"
#include "graph/ops/rules.h"

namespace transom {
namespace {

using Tensors = std::vector<Tensor>;

Tensor weights_of(const Tensor& scores) {
  const Tensor e = exp(scores - reduce_max(scores, {-1}, true));
  return e / reduce_sum(e, {-1}, true);
}

Tensor dropped(const AttentionParts& p, const Tensor& x) { return p.key.defined() ? dropout(x, p.key, p.dropout) : x; }

Tensors decompose(std::span<const Tensor> in, const Attributes& attributes) {
  const AttentionParts p = parts_of_attention(in, attributes);
  const Tensor scores = scores_of(p).all;
  const Tensor weights = cast(dropped(p, weights_of(scores)), p.v.dtype());
  const Tensor mixed =
      ungrouped(p, wide_product(reshape(weights, {p.B, p.G, p.group(), p.T, p.S}), p.v, {{0, 1}, {0, 2}, {4}, {1}}));
  return {cast(mixed, p.v.dtype())};
}

struct AttentionGradients {
  Tensor q, k, v;
  Tensor scores;  // as the bias is added to them: [B, H, T, S]
};

AttentionGradients gradients_of(const AttentionParts& p, const Tensor& out) {
  const Shape by_group = {p.B, p.G, p.group(), p.T, p.S}, by_head = {p.B, p.H, p.T, p.S};
  const AttentionScores scores = scores_of(p);
  const Tensor weights = weights_of(scores.all), dy = grouped(p, cast(out, p.v.dtype()));
  const Tensor kept = reshape(cast(dropped(p, weights), p.v.dtype()), by_group);
  const Tensor dv = wide_product(kept, dy, {{0, 1}, {0, 1}, {2, 3}, {2, 3}});  // [B, G, S, e]
  const Tensor dweights = dropped(p, reshape(wide_product(dy, p.v, {{0, 1}, {0, 2}, {4}, {3}}), by_head));
  const Tensor dscores = weights * (dweights - reduce_sum(weights * dweights, {-1}, true));
  const ScoreGradients of_scores = gradients_of_scores(p, scores.capped, dscores);
  return {of_scores.q, of_scores.k, cast(permute(dv, {0, 2, 1, 3}), p.v.dtype()), dscores};
}

// The gradient of what was broadcast to x.
Tensor summed_to(const Tensor& x, const Type& type) {
  Axes axes;
  for (int64_t axis = 0; axis < x.rank(); ++axis)
    if (type.shape[static_cast<size_t>(axis)] == 1 && x.dim(axis) != 1) axes.push_back(axis);
  return cast(axes.empty() ? x : reduce_sum(x, axes, true), type.dtype);
}

std::vector<Sample> samples_of(bool gradient, bool of_bias = false) {
  std::vector<Sample> samples;
  const auto add = [&](DType dtype, Shape q, Shape k, int64_t e, AttentionOptions options, Shape bias, double dropout) {
    if (of_bias && bias.empty()) return;
    samples.push_back(sample_of_attention({dtype, q, k, e, options, bias, dropout}, {}, gradient, 1'000'000));
  };
  for (const DType dtype : {DType::kFloat32, DType::kBFloat16}) {
    add(dtype, {1, 3, 2, 2}, {1, 4, 2, 2}, 3, {.scale = 0.7, .causal = false}, {}, 0);
    add(dtype, {2, 5, 2, 3}, {2, 5, 2, 3}, 3, {.scale = 0.5}, {}, 0);
    add(dtype, {1, 5, 4, 2}, {1, 7, 2, 2}, 2, {.scale = 1.0, .sliding_window = 3}, {}, 0);
    add(dtype, {2, 3, 2, 2}, {2, 3, 1, 2}, 2, {.scale = 0.5, .causal = false, .soft_cap = 2.0}, {2, 1, 1, 3}, 0);
    add(dtype, {1, 4, 2, 2}, {1, 4, 2, 2}, 2, {.scale = 0.5}, {1, 2, 4, 4}, 0.25);
    add(dtype, {2, 70, 4, 16}, {2, 70, 2, 16}, 16, {.scale = 0.25}, {2, 1, 1, 70}, 0.1);
    add(dtype, {1, 150, 2, 8}, {1, 150, 2, 8}, 8, {.scale = 0.25, .causal = false}, {1, 2, 150, 150}, 0.0);
  }
  return samples;
}

const Operation kAttentionGradient = {
    .name = "attention_gradient",
    .kind = OperationKind::kComposite,
    .documentation = "(the inputs of attention, dy): the gradients for (q, k, v).",
    .gradient_jumps = true,
    .category = Category::kAttention,
    .flops = attention_flops<true>,
    .infer = [](const Inference& in) -> std::vector<Type> {
      const size_t count = check_attention_inputs(in);
      check(in, in.inputs.size() == count + 1, "expected the inputs of attention and a cotangent");
      return {in.inputs[0], in.inputs[1], in.inputs[2]};
    },
    .decompose = [](std::span<const Tensor> in, const Attributes& attributes) -> Tensors {
      const AttentionGradients made = gradients_of(parts_of_attention(in, attributes), in.back());
      return {made.q, made.k, made.v};
    },
    .samples = [] { return samples_of(true); }};

// An operation of its own, since devices that have a kernel for the other gradient have none for this.
const Operation kBiasedAttentionGradient = {
    .name = "biased_attention_gradient",
    .kind = OperationKind::kComposite,
    .documentation = "(the inputs of attention with a bias, dy): the gradients for (q, k, v, bias).",
    .gradient_jumps = true,
    .category = Category::kAttention,
    .flops = attention_flops<true>,
    .infer = [](const Inference& in) -> std::vector<Type> {
      const size_t count = check_attention_inputs(in);
      check(in, in.inputs.size() == count + 1, "expected the inputs of attention and a cotangent");
      check(in, in.attributes.get_int("biased") != 0, "expected a bias");
      return {in.inputs[0], in.inputs[1], in.inputs[2], in.inputs[3]};
    },
    .decompose = [](std::span<const Tensor> in, const Attributes& attributes) -> Tensors {
      const AttentionGradients made = gradients_of(parts_of_attention(in, attributes), in.back());
      return {made.q, made.k, made.v, summed_to(made.scores, in[3].type())};
    },
    .samples = [] { return samples_of(true, true); }};

const Operation kAttention = {
    .name = "attention",
    .kind = OperationKind::kComposite,
    .documentation =
        "(q [B, T, H, d], k [B, S, G, d], v [B, S, G, e], bias, key): softmax(`scale` q k + bias) v -> [B, T, H, e]. "
        "bias is there where `biased` is 1 and broadcasts to [B, H, T, S]; key where `dropout` is above 0. `soft_cap` "
        "c makes scores "
        "c tanh(score / c); `causal` and `sliding_window` hide keys as AttentionOptions says.",
    .category = Category::kAttention,
    .autocast = AutocastClass::kLow,
    .flops = attention_flops<false>,
    .infer = [](const Inference& in) -> std::vector<Type> {
      check(in, in.inputs.size() == check_attention_inputs(in), "unexpected inputs");
      const Shape& q = in.shape(0);
      return {{in.dtype(0), {q[0], q[1], q[2], in.shape(2)[3]}}};
    },
    .decompose = decompose,
    .gradient = [](const GradientRequest& request) -> Tensors {
      const AttentionParts p = parts_of_attention(request.inputs, request.attributes);
      Tensors result(request.inputs.size()), inputs(request.inputs.begin(), request.inputs.end());
      inputs.push_back(cast(request.cotangents[0], p.v.dtype()));
      const bool learned_bias = p.bias.defined() && request.wanted(3);
      const Tensors made =
          make_tensors(learned_bias ? kBiasedAttentionGradient : kAttentionGradient, inputs, request.attributes);
      std::copy(made.begin(), made.end(), result.begin());
      return result;
    },
    .samples = [] { return samples_of(false); }};

}  // namespace

const RegisterOperations kRegisteredAttention{&kAttention, &kAttentionGradient, &kBiasedAttentionGradient};

namespace op {
const Operation& attention = kAttention;
}  // namespace op

Tensor attention(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& bias, const AttentionOptions& options,
                 const Computing& computing, const Tensor& key, double dropout) {
  Tensors inputs = autocast_inputs(kAttention, {q, k, v}, computing);
  if (bias.defined()) inputs.push_back(cast(bias, wide_type(inputs[0].dtype())));
  if (dropout > 0) inputs.push_back(key);
  Attributes attributes = attention_attributes(options, bias.defined(), dropout);
  keep_rows_apart(attributes, computing);
  return make_tensor(kAttention, std::move(inputs), std::move(attributes));
}

}  // namespace transom
