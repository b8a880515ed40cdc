// SPDX-License-Identifier: Apache-2.0
// Attention by the flash nodes of the second and third generation, and rotary embedding.
#include "hpu/lowering/lowering.h"

namespace transom::hpu {
namespace {

// What hides a key; a number of bf16, so that statistics in it stay finite.
constexpr double kMaskedScore = -3.3895313892515355e38;

Value heads_first(Emitter& emit, const Value& x) { return emit.transpose(x, {0, 2, 1, 3}); }  // and back again

// Where the last T of S tokens see only what stands before them: 0 where a key is seen, else kMaskedScore. [1, 1, T, S]
Value places(Emitter& emit, int64_t T, int64_t S, int64_t window) {
  const auto number = [&](int64_t value) { return emit.number(Element::kI32, static_cast<double>(value), 4); };
  const Value query = emit.binary("add_fwd", emit.reshape(emit.range(T), {1, 1, T, 1}), number(S - T));
  const Value key = emit.reshape(emit.range(S), {1, 1, 1, S});
  const Value seen = emit.number(Element::kF32, 0, 4), hidden = emit.number(Element::kF32, kMaskedScore, 4);
  const Value mask = emit.where(emit.compare("less_equal_fwd", key, query), seen, hidden);
  if (window == 0) return mask;
  return emit.where(emit.compare("greater_fwd", key, emit.binary("sub_fwd", query, number(window))), mask, hidden);
}

struct Attention {
  Value q, k, v, mask;  // heads before tokens; no mask: mask.tensor is kNoTensor
  bool causal = false;  // said to the node itself
  float scale = 1;
};

Attention attention_of(const Node& node, Emitter& emit, const Values& in) {
  if (emit.device() == synDeviceGaudi) unsupported("the first Gaudi has no flash attention");
  Attention a{heads_first(emit, in[0]), heads_first(emit, in[1]), heads_first(emit, in[2]), {}};
  a.scale = static_cast<float>(node.number("scale"));
  const int64_t T = node.input(0).shape[1], S = node.input(1).shape[1], window = node.integer("sliding_window");
  const bool biased = node.integer("biased") != 0;
  const bool hides = node.integer("causal") != 0 && (T > 1 || window > 0);
  if (hides && !biased && T == S && window == 0) {
    a.causal = true;
    return a;
  }
  if (biased) a.mask = emit.cast(in[3], Element::kF32);
  if (!hides) return a;
  const Value before = places(emit, T, S, window);
  // What both hide is hidden no more than what one hides: a row that sees nothing is the mean of all values.
  a.mask = biased ? emit.binary("max_fwd", emit.binary("add_fwd", a.mask, before),
                                emit.number(Element::kF32, kMaskedScore, 4))
                  : before;
  return a;
}

synSdpaParams params_of(const Attention& a, bool inference) {
  auto params = zeroed<synSdpaParams>();
  params.scale = a.scale;
  params.is_causal = a.causal;
  params.is_inference = inference;
  return params;
}

Shape with_last(Shape shape, int64_t extent) {
  shape.back() = extent;
  return shape;
}

// {Q, K, V, mask, seed, seven more} -> O, and for the gradient the largest score and the inverse sum of each row.
Values forward(Emitter& emit, const Attention& a, bool inference) {
  Values inputs{a.q, a.k, a.v, a.mask};
  inputs.resize(12);
  const Element element = a.q.element;
  std::vector<std::pair<Element, Shape>> outputs{{element, with_last(a.q.shape, a.v.shape.back())}};
  if (!inference) {
    outputs.emplace_back(element, with_last(a.q.shape, 1));
    outputs.emplace_back(Element::kF32, with_last(a.q.shape, 1));
  }
  return emit.nodes(Emitter::typed("sdpa_recomp_fwd", element), inputs, outputs,
                    Emitter::bytes_of(params_of(a, inference)));
}

Values attention(const Node& node, Emitter& emit, const Values& in) {
  return {heads_first(emit, forward(emit, attention_of(node, emit, in), true)[0])};
}

// The statistics are not kept from the forward pass; the node gives them again.
Values attention_gradient(const Node& node, Emitter& emit, const Values& in) {
  const Attention a = attention_of(node, emit, in);
  const Values statistics = forward(emit, a, false);
  const Values inputs{
      heads_first(emit, in.back()), a.q, a.k, a.v, a.mask, statistics[1], statistics[2], {}, statistics[0]};
  const Element element = a.q.element;
  Values gradients = emit.nodes(Emitter::typed("sdpa_recomp_bwd", element), inputs,
                                {{element, a.q.shape}, {element, a.k.shape}, {element, a.v.shape}},
                                Emitter::bytes_of(params_of(a, false)));
  for (Value& gradient : gradients) gradient = heads_first(emit, gradient);
  return gradients;
}

// The kernel takes an angle for each number of a head, its halves being the pairs.
Values rotary(const Node& node, Emitter& emit, const Values& in) {
  const Shape& shape = node.input(0).shape;
  const int64_t d = shape[3], turning = 2 * node.input(1).shape[3];
  const auto part = [&](int64_t from, int64_t to) {
    return emit.slice(in[0], {0, 0, 0, from}, {shape[0], shape[1], shape[2], to}, {1, 1, 1, 1});
  };
  const Value x = turning < d ? part(0, turning) : in[0];
  const Value cosine = emit.concatenate({in[1], in[1]}, 3), sine = emit.concatenate({in[2], in[2]}, 3);
  const Value y = emit.node(Emitter::typed("rotary_pos_embedding_fwd", x.element), {x, sine, cosine}, x.element,
                            x.shape, zeroed<synRotaryParams>());
  return {turning < d ? emit.concatenate({y, part(turning, d)}, 3) : y};
}

}  // namespace

void add_attention_lowerings(LoweringTable& table) {
  table["attention"] = {attention, true};
  table["attention_gradient"] = {attention_gradient, true};
  table["rotary"] = {rotary, true};
}

}  // namespace transom::hpu
