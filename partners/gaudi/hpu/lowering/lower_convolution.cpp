// SPDX-License-Identifier: Apache-2.0
// Convolutions of one and two spatial axes and their gradients, on the matrix engines. Tensors keep the order N, C, H,
// W; the graph compiler turns them as its engines like.
#include "hpu/lowering/lowering.h"

namespace transom::hpu {
namespace {

struct Window {
  synConvolutionParams params;
  bool one_axis;
};

// `weight` is [O, C / groups, window...].
Window window_of(const Node& node, const Shape& weight) {
  const size_t axes = weight.size() - 2;
  if (axes != 1 && axes != 2) unsupported("a convolution of three spatial axes");
  const Shape strides = node.integers("strides"), dilations = node.integers("dilations");
  const Shape low = node.integers("low"), high = node.integers("high");
  auto params = zeroed<synConvolutionParams>();
  const size_t w = axes - 1;
  params.kW = static_cast<uint32_t>(weight[2 + w]);
  params.dW = static_cast<uint32_t>(strides[w]);
  params.dilW = static_cast<uint32_t>(dilations[w]);
  params.padL = static_cast<int32_t>(low[w]);
  params.padR = static_cast<int32_t>(high[w]);
  params.kH = axes == 2 ? static_cast<uint32_t>(weight[2]) : 1;
  params.dH = axes == 2 ? static_cast<uint32_t>(strides[0]) : 1;
  params.dilH = axes == 2 ? static_cast<uint32_t>(dilations[0]) : 1;
  params.padT = axes == 2 ? static_cast<int32_t>(low[0]) : 0;
  params.padB = axes == 2 ? static_cast<int32_t>(high[0]) : 0;
  params.activation.numChannels = 1;
  params.nGroups = static_cast<uint32_t>(node.integer("groups", 1));
  return {params, axes == 1};
}

// [N, C, W] as [N, C, 1, W]
Shape with_height(const Shape& shape) { return shape.size() == 3 ? Shape{shape[0], shape[1], 1, shape[2]} : shape; }

Values emitted(const Node& node, Emitter& emit, const char* guid, const Values& in, const Shape& weight,
               std::vector<std::string> in_layouts, std::string out_layout) {
  if (!is_floating(in[0].element)) unsupported("a convolution of integers");
  const Window window = window_of(node, weight);
  const Shape& result = node.output().shape;
  std::vector<Value> operands;
  for (const Value& x : in) operands.push_back(emit.reshape(x, with_height(x.shape)));
  const auto outputs = emit.nodes(guid, operands, {{emit.element_of(node.output().dtype), with_height(result)}},
                                  Emitter::bytes_of(window.params), std::move(in_layouts), {std::move(out_layout)});
  return {emit.reshape(outputs[0], result)};
}

Values convolution(const Node& node, Emitter& emit, const Values& in) {
  return emitted(node, emit, "spatial_convolution", in, node.input(1).shape, {"WHCN", "SRCK"}, "WHCN");
}

Values input_gradient(const Node& node, Emitter& emit, const Values& in) {
  return emitted(node, emit, "dedx", in, node.input(1).shape, {"WHCN", "SRCK"}, "WHCN");
}

Values weight_gradient(const Node& node, Emitter& emit, const Values& in) {
  return emitted(node, emit, "dedw", {in[1], in[0]}, node.output().shape, {"WHCN", "WHCN"}, "SRCK");
}

}  // namespace

void add_convolution_lowerings(LoweringTable& table) {
  table["convolution"] = convolution;
  table["convolution_input_gradient"] = input_gradient;
  table["convolution_weight_gradient"] = weight_gradient;
}

}  // namespace transom::hpu
