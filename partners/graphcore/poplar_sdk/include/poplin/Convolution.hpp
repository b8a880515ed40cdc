// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "poplar/Graph.hpp"
#include "poplin/ConvParams.hpp"

namespace poplin {

// in [N, groups x channels, field...], weights [groups, output channels, input channels, kernel...]. With
// transposeAndFlipWeights the weights are those of the forward pass: [groups, input channels, output channels, ...].
poplar::Tensor convolution(poplar::Graph& graph, const poplar::Tensor& in, const poplar::Tensor& weights,
                           const ConvParams& params, bool transposeAndFlipWeights, poplar::program::Sequence& prog,
                           const poplar::DebugContext& debugContext = {}, const poplar::OptionFlags& options = {});
// The gradient for the weights, of the forward pass' params.
poplar::Tensor calculateWeightDeltas(poplar::Graph& graph, const poplar::Tensor& zDeltas,
                                     const poplar::Tensor& activations, const ConvParams& params,
                                     poplar::program::Sequence& prog, const poplar::DebugContext& debugContext = {},
                                     const poplar::OptionFlags& options = {});

}  // namespace poplin
