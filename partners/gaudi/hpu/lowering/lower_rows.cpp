// SPDX-License-Identifier: Apache-2.0
// Composites that kernels do whole: those over the last axis, and activations.
#include "hpu/lowering/lowering.h"

namespace transom::hpu {
namespace {

// [rows, D]
Value rows(Emitter& emit, const Value& x, const Type& type) {
  const int64_t width = type.shape.back();
  return emit.reshape(x, {type.count() / width, width});
}

template <const char* const& guid>
Values softmax(const Node& node, Emitter& emit, const Values& in) {
  const Value x = rows(emit, in[0], node.input(0));
  const Value y = emit.node(Emitter::typed(guid, x.element), {x}, x.element, x.shape, synSoftmaxParams{0});
  return {emit.reshape(y, Emitter::canonical(node.output().shape))};
}

// The kernels take (y, dy) for softmax and (dy, y) for its logarithm.
template <const char* const& guid, bool result_first>
Values softmax_gradient(const Node& node, Emitter& emit, const Values& in) {
  const Value y = rows(emit, in[0], node.input(0)), dy = rows(emit, in[1], node.input(0));
  const Values operands = result_first ? Values{y, dy} : Values{dy, y};
  const Value dx = emit.node(Emitter::typed(guid, y.element), operands, y.element, y.shape, synSoftmaxParams{0});
  return {emit.reshape(dx, Emitter::canonical(node.output().shape))};
}

// The kernel wants four axes, the two slow ones of extent 1, and its scale and bias in f32.
Shape four_axes(const Type& type) {
  const int64_t width = type.shape.back();
  return {1, 1, type.count() / width, width};
}

Values layer_norm_outputs(const Node& node, Emitter& emit, const Value& x, const Value& scale, const Value& bias) {
  const Shape shape = four_axes(node.input(0));
  auto params = zeroed<synLayerNormParams>();
  params.epsValid = true;
  params.eps = static_cast<float>(node.number("epsilon"));
  const Shape statistics = {1, 1, shape[2], 1};
  return emit.nodes(Emitter::typed("layer_norm_fwd", x.element),
                    {emit.reshape(x, shape), emit.cast(bias, Element::kF32), emit.cast(scale, Element::kF32)},
                    {{x.element, shape}, {Element::kF32, statistics}, {Element::kF32, statistics}},
                    Emitter::bytes_of(params));
}

Values layer_norm(const Node& node, Emitter& emit, const Values& in) {
  const Value y = layer_norm_outputs(node, emit, in[0], in[1], in[2])[0];
  return {emit.reshape(y, Emitter::canonical(node.output().shape))};
}

// Mean and deviation are not kept from the forward pass; the kernel gives them again.
Values layer_norm_gradient(const Node& node, Emitter& emit, const Values& in) {
  const Value &x = in[0], &scale = in[1], &dy = in[2];
  const Values forward = layer_norm_outputs(node, emit, x, scale, emit.full(Element::kF32, 0, scale.shape));
  const Shape shape = four_axes(node.input(0));
  const auto params = zeroed<synLayerNormParams>();
  const Values backward = emit.nodes(
      Emitter::typed("layer_norm_bwd", x.element),
      {emit.reshape(x, shape), emit.reshape(dy, shape), forward[1], forward[2], emit.cast(scale, Element::kF32)},
      {{x.element, shape}, {Element::kF32, scale.shape}, {Element::kF32, scale.shape}}, Emitter::bytes_of(params));
  return {emit.reshape(backward[0], Emitter::canonical(node.output(0).shape)),
          emit.cast(backward[2], emit.element_of(node.output(1).dtype)),
          emit.cast(backward[1], emit.element_of(node.output(2).dtype))};
}

// The kernel's second output is what its gradient takes.
Values rms_norm_outputs(const Node& node, Emitter& emit, const Value& x, const Value& scale) {
  auto params = zeroed<synRmsNormParams>();
  params.epsValid = true;
  params.eps = static_cast<float>(node.number("epsilon"));
  params.NormAxisBmp = params.ParamAxisBmp = params.normalizedShapeDims = 1;
  return emit.nodes(Emitter::typed("rms_norm_ex_fwd", x.element), {x, scale},
                    {{x.element, x.shape}, {Element::kF32, {x.shape[0], 1}}}, Emitter::bytes_of(params));
}

Values rms_norm(const Node& node, Emitter& emit, const Values& in) {
  const Value y = rms_norm_outputs(node, emit, rows(emit, in[0], node.input(0)), in[1])[0];
  return {emit.reshape(y, Emitter::canonical(node.output().shape))};
}

Values rms_norm_gradient(const Node& node, Emitter& emit, const Values& in) {
  const Value x = rows(emit, in[0], node.input(0)), dy = rows(emit, in[2], node.input(2)), &scale = in[1];
  const Value inverse = rms_norm_outputs(node, emit, x, scale)[1];
  const Values backward = emit.nodes(Emitter::typed("rms_norm_ex_bwd", x.element), {dy, x, scale, inverse},
                                     {{x.element, x.shape}, {Element::kF32, scale.shape}},
                                     Emitter::bytes_of(zeroed<synRmsNormGradientParams>()));
  return {emit.reshape(backward[0], Emitter::canonical(node.output(0).shape)),
          emit.cast(backward[1], emit.element_of(node.output(1).dtype))};
}

template <bool by_tanh>
Values gelu(const Node&, Emitter& emit, const Values& in) {
  const Value& x = in[0];
  auto params = zeroed<synGeluParams>();
  params.approximation = by_tanh;
  // The second output is what the gradient kernel would take; it must be there.
  return {emit.nodes(Emitter::typed("gelu_fwd", x.element), {x}, {{x.element, x.shape}, {x.element, x.shape}},
                     Emitter::bytes_of(params))[0]};
}

Values silu(const Node&, Emitter& emit, const Values& in) { return {emit.unary("silu_fwd", in[0])}; }

// What is left of `dropout` once the host has drawn which elements stay.
Values dropout_apply(const Node& node, Emitter& emit, const Values& in) {
  const size_t rank = in[0].shape.size();
  const Value scaled =
      emit.binary("mult_fwd", in[0], emit.number(in[0].element, 1.0 / (1.0 - node.number("probability")), rank));
  return {emit.where(in[1], scaled, emit.number(in[0].element, 0, rank))};
}

constexpr const char* const softmax_guid = "softmax_fwd";
constexpr const char* const log_softmax_guid = "logsoftmax_fwd";
constexpr const char* const softmax_gradient_guid = "softmax_bwd";
constexpr const char* const log_softmax_gradient_guid = "logsoftmax_bwd_data";

}  // namespace

void add_row_lowerings(LoweringTable& table) {
  table["softmax"] = {softmax<softmax_guid>, true};
  table["log_softmax"] = {softmax<log_softmax_guid>, true};
  table["softmax_gradient"] = {softmax_gradient<softmax_gradient_guid, true>, true};
  table["log_softmax_gradient"] = {softmax_gradient<log_softmax_gradient_guid, false>, true};
  table["layer_norm"] = {layer_norm, true};
  table["layer_norm_gradient"] = {layer_norm_gradient, true};
  table["rms_norm"] = {rms_norm, true};
  table["rms_norm_gradient"] = {rms_norm_gradient, true};
  table["gelu"] = {gelu<false>, true};
  table["gelu_tanh"] = {gelu<true>, true};
  table["silu"] = {silu, true};
  table["dropout"] = {nullptr, true};  // the plan makes a mask and dropout_apply of it
  table["dropout_apply"] = dropout_apply;
}

}  // namespace transom::hpu
