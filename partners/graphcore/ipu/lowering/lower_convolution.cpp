// SPDX-License-Identifier: Apache-2.0
// Convolutions of images [N, C, places...] with weights [O, C/groups, window...], and their gradients.
#include <algorithm>
#include <poplin/Convolution.hpp>

#include "ipu/lowering/lowering.h"
#include "transom/plugin/error.h"

namespace transom::ipu {
namespace {

// Of the forward pass: x of `x_shape`, w of `w_shape`.
poplin::ConvParams forward_params(const Node& node, poplar::Type type, const std::vector<size_t>& x_shape,
                                  const std::vector<size_t>& w_shape) {
  const auto groups = static_cast<size_t>(node.integer("groups"));
  poplin::ConvParams params(type, type, x_shape.at(0), {x_shape.begin() + 2, x_shape.end()},
                            {w_shape.begin() + 2, w_shape.end()}, w_shape.at(1), w_shape.at(0) / groups, groups);
  for (size_t i = 0; i + 2 < x_shape.size(); ++i) {
    params.inputTransform.paddingLower[i] = static_cast<unsigned>(node.integers("low").at(i));
    params.inputTransform.paddingUpper[i] = static_cast<unsigned>(node.integers("high").at(i));
    params.kernelTransform.dilation[i] = static_cast<unsigned>(node.integers("dilations").at(i));
    params.outputTransform.stride[i] = static_cast<unsigned>(node.integers("strides").at(i));
  }
  return params;
}

// The convolution of dy that gives the gradient for x: strides become dilations, and padding what the kernel leaves.
poplin::ConvParams gradient_params(const poplin::ConvParams& forward, const std::vector<size_t>& dy_shape) {
  poplin::ConvParams params(forward.inputType, forward.outputType, forward.batchSize,
                            {dy_shape.begin() + 2, dy_shape.end()}, forward.kernelShape,
                            forward.outputChannelsPerConvGroup, forward.inputChannelsPerConvGroup,
                            forward.numConvGroups);
  for (size_t i = 0; i < forward.inputFieldShape.size(); ++i) {
    const auto signed_of = [](size_t value) { return static_cast<int64_t>(value); };
    const int64_t reach = signed_of(forward.kernelShape[i] - 1) * forward.kernelTransform.dilation[i];
    const int64_t lower = reach - forward.inputTransform.paddingLower[i];
    const int64_t stride = forward.outputTransform.stride[i];
    const int64_t spread = signed_of(dy_shape[i + 2] - 1) * stride + 1;
    // As many results as x has places; what is missing is padded, what is too much is cut.
    const int64_t upper = signed_of(forward.inputFieldShape[i]) + reach - lower - spread;
    params.inputTransform.dilation[i] = static_cast<unsigned>(stride);
    params.kernelTransform.dilation[i] = forward.kernelTransform.dilation[i];
    params.inputTransform.paddingLower[i] = static_cast<unsigned>(std::max<int64_t>(0, lower));
    params.inputTransform.paddingUpper[i] = static_cast<unsigned>(std::max<int64_t>(0, upper));
    params.outputTransform.truncationLower[i] = static_cast<unsigned>(std::max<int64_t>(0, -lower));
    params.outputTransform.truncationUpper[i] = static_cast<unsigned>(std::max<int64_t>(0, -upper));
  }
  return params;
}

// [O, C, ...] as [groups, O/groups, C, ...].
Tensor grouped(const Tensor& weights, size_t groups) {
  std::vector<size_t> shape = weights.shape();
  shape[0] /= groups;
  shape.insert(shape.begin(), groups);
  return weights.reshape(shape);
}

}  // namespace

void lower_convolution(Lowering& lowering, Work& work) {
  const Node& node = work.node;
  const std::string place = node.place();
  const poplar::Type type = work.inputs.at(0).elementType();
  const std::vector<size_t> shape = extents_of(node.output().shape);
  if (type != poplar::FLOAT && type != poplar::HALF)
    backend::fail(TRANSOM_UNSUPPORTED, "{}: no convolutions of {}", place, type.toString());
  const Tensor &a = work.inputs.at(0), &b = work.inputs.at(1);
  if (a.numElements() == 0 || b.numElements() == 0) {
    work.outputs[0] = lowering.variable(type, shape, place);
    return lowering.fill(work.outputs[0], 0, 0, place);
  }
  if (node.op() == "convolution") {
    const auto params = forward_params(node, type, a.shape(), b.shape());
    work.outputs[0] = poplin::convolution(lowering.graph(), a, grouped(b, params.numConvGroups), params, false,
                                          lowering.program(), place, lowering.product_options());
  } else if (node.op() == "convolution_input_gradient") {
    const auto forward = forward_params(node, type, shape, b.shape());
    work.outputs[0] =
        poplin::convolution(lowering.graph(), a, grouped(b, forward.numConvGroups), gradient_params(forward, a.shape()),
                            true, lowering.program(), place, lowering.product_options());
  } else {
    const auto params = forward_params(node, type, a.shape(), shape);
    work.outputs[0] = poplin::calculateWeightDeltas(lowering.graph(), b, a, params, lowering.program(), place,
                                                    lowering.product_options())
                          .reshape(shape);
  }
}

}  // namespace transom::ipu
