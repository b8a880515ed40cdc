// SPDX-License-Identifier: Apache-2.0
// sink_attention: attention to keys and to a score that has no value. What the keys give is that of plain attention
// times the share that they have of all weights, 1 / (1 + e^(sink - log-sum-exp of the scores)); so devices that have
// partial_attention need nothing more.
#include "graph/ops/attention/sink_attention.h"

#include "graph/ops/attention/attention_parts.h"
#include "graph/ops/attention/attention_samples.h"
#include "graph/ops/attention/partial_attention.h"
#include "graph/ops/computing.h"
#include "graph/ops/records.h"
#include "graph/ops/rules.h"

namespace transom {
namespace {

using Tensors = std::vector<Tensor>;

struct SinkParts {
  AttentionParts attention;
  PartialDropout dropout;
  PartialAttention keys;  // what these alone give
  Tensor share;           // of the keys, [B, H, T]
};

SinkParts parts_with_sinks(std::span<const Tensor> in, const Attributes& attributes) {
  SinkParts parts{.attention = parts_of_attention(in, attributes), .dropout = {}, .keys = {}, .share = {}};
  const AttentionParts& p = parts.attention;
  if (p.key.defined()) parts.dropout = {p.key, p.dropout, {p.H, p.T, p.S}, {0, 0, 0, 0}};
  parts.keys = partial_attention(p.q, p.k, p.v, p.bias, p.options, p.offset, parts.dropout);
  const Tensor& sinks = in[3 + (p.bias.defined() ? 1 : 0) + (p.key.defined() ? 1 : 0)];
  parts.share = sigmoid(parts.keys.largest + log(parts.keys.sum) - reshape(sinks, {1, p.H, 1}));
  return parts;
}

// [B, H, T] as it goes with [B, T, H, e]
Tensor beside_values(const Tensor& x) { return unsqueeze(permute(x, {0, 2, 1}), 3); }

Tensor mixed_with_sinks(const SinkParts& parts) {
  return cast(parts.keys.out, parts.share.dtype()) * beside_values(parts.share);
}

// Checks all but a cotangent; returns how many inputs these are.
size_t check_sink_inputs(const Inference& in) {
  const size_t count = check_attention_inputs(in);
  check(in, in.inputs.size() > count, "expected sinks behind {} inputs", count);
  check(in, in.shape(1)[1] > 0, "expected at least one key");
  const Type expected{wide_type(in.dtype(0)), {in.shape(0)[2]}};
  check(in, in.inputs[count] == expected, "expected sinks of {}, found {}", expected, in.inputs[count]);
  return count + 1;
}

std::vector<Sample> sink_samples(bool gradient) {
  std::vector<Sample> samples;
  const auto add = [&](DType dtype, Shape q, Shape k, int64_t e, AttentionOptions options, Shape bias, double dropout) {
    samples.push_back(sample_of_attention({dtype, q, k, e, options, bias, dropout}, {{DType::kFloat32, {q[2]}}},
                                          gradient, 1'000'000));
  };
  for (const DType dtype : {DType::kFloat32, DType::kBFloat16}) {
    add(dtype, {1, 3, 2, 2}, {1, 4, 2, 2}, 3, {.scale = 0.7, .causal = false}, {}, 0);
    add(dtype, {2, 5, 2, 3}, {2, 5, 2, 3}, 3, {.scale = 0.5}, {}, 0);
    add(dtype, {1, 5, 4, 2}, {1, 7, 2, 2}, 2, {.scale = 1.0, .sliding_window = 3}, {}, 0);
    add(dtype, {2, 3, 2, 2}, {2, 3, 1, 2}, 2, {.scale = 0.5, .causal = false, .soft_cap = 2.0}, {2, 1, 1, 3}, 0);
    add(dtype, {1, 4, 2, 2}, {1, 4, 2, 2}, 2, {.scale = 0.5}, {1, 2, 4, 4}, 0.25);
    add(dtype, {1, 70, 4, 16}, {1, 70, 2, 16}, 16, {.scale = 0.25}, {1, 1, 1, 70}, 0);
  }
  return samples;
}

const Operation kSinkAttentionGradient = {
    .name = "sink_attention_gradient",
    .kind = OperationKind::kComposite,
    .documentation = "(the inputs of sink_attention, dy): the gradients for (q, k, v, sinks).",
    .gradient_jumps = true,
    .category = Category::kAttention,
    .flops = attention_flops<true>,
    .infer = [](const Inference& in) -> std::vector<Type> {
      const size_t count = check_sink_inputs(in);
      check(in, in.inputs.size() == count + 1, "expected the inputs of sink_attention and a cotangent");
      return {in.inputs[0], in.inputs[1], in.inputs[2], in.inputs[count - 1]};
    },
    .decompose = [](std::span<const Tensor> in, const Attributes& attributes) -> Tensors {
      // The gradient of a sink is a sum in which dy y cancels: y is not rounded to 16 bits before.
      const DType given = in[0].dtype();
      Tensors inputs(in.begin(), in.end());
      for (size_t i = 0; i < 3; ++i) inputs[i] = cast(inputs[i], wide_type(given));
      const SinkParts parts = parts_with_sinks(inputs, attributes);
      const AttentionParts& p = parts.attention;
      const Tensor dy = cast(in.back(), parts.share.dtype());
      // With y = share out: of the log-sum-exp of the scores the gradient is (1 - share) dy y, of the sink minus that.
      const Tensor both = permute(reduce_sum(dy * mixed_with_sinks(parts), {3}), {0, 2, 1});  // dy y, [B, H, T]
      const PartialAttentionGradients made = partial_attention_gradients(
          p.q, p.k, p.v, p.bias, parts.keys.largest, parts.keys.sum, parts.share * both,
          cast(dy * beside_values(parts.share), p.q.dtype()), p.options, p.offset, parts.dropout);
      return {cast(made.q, given), cast(made.k, given), cast(made.v, given),
              reduce_sum((parts.share - 1.0) * both, {0, 2})};
    },
    .samples = [] { return sink_samples(true); }};

const Operation kSinkAttention = {
    .name = "sink_attention",
    .kind = OperationKind::kComposite,
    .documentation =
        "(the inputs of attention, sinks [H]): attention in which the softmax of each head has one more score, whose "
        "value is zero.",
    .gradient_jumps = true,
    .category = Category::kAttention,
    .autocast = AutocastClass::kLow,
    .flops = attention_flops<false>,
    .infer = [](const Inference& in) -> std::vector<Type> {
      check(in, in.inputs.size() == check_sink_inputs(in), "unexpected inputs");
      const Shape& q = in.shape(0);
      return {{in.dtype(0), {q[0], q[1], q[2], in.shape(2)[3]}}};
    },
    .decompose = [](std::span<const Tensor> in, const Attributes& attributes) -> Tensors {
      return {cast(mixed_with_sinks(parts_with_sinks(in, attributes)), in[0].dtype())};
    },
    .gradient = [](const GradientRequest& request) -> Tensors {
      const bool biased = request.attributes.get_int("biased") != 0;
      if (biased && request.wanted(3)) return {};  // a learned bias: by the decomposition
      Tensors result(request.inputs.size()), inputs(request.inputs.begin(), request.inputs.end());
      inputs.push_back(cast(request.cotangents[0], request.inputs[0].dtype()));
      const Tensors made = make_tensors(kSinkAttentionGradient, inputs, request.attributes);
      std::copy(made.begin(), made.begin() + 3, result.begin());
      result.back() = made[3];
      return result;
    },
    .samples = [] { return sink_samples(false); }};

}  // namespace

const RegisterOperations kRegisteredSinkAttention{&kSinkAttention, &kSinkAttentionGradient};

Tensor sink_attention(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& bias, const Tensor& sinks,
                      const AttentionOptions& options, const Computing& computing, const Tensor& key, double dropout) {
  Tensors inputs = autocast_inputs(kSinkAttention, {q, k, v}, computing);
  const DType wide = wide_type(inputs[0].dtype());
  if (bias.defined()) inputs.push_back(cast(bias, wide));
  if (dropout > 0) inputs.push_back(key);
  inputs.push_back(cast(sinks, wide));
  return make_tensor(kSinkAttention, std::move(inputs), attention_attributes(options, bias.defined(), dropout));
}

}  // namespace transom
