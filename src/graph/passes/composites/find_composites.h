// SPDX-License-Identifier: Apache-2.0
// Composites that a graph spells out: exporters of other frameworks write them as their parts.
#pragma once

#include <functional>
#include <optional>

#include "graph/ir/graph.h"

namespace transom {

// The number that a leaf of one element is; none: not known, or of more elements.
using LeafNumber = std::function<std::optional<double>(const Tensor& leaf)>;

// Puts attention, softmax, layer_norm, rms_norm, gelu and gelu_tanh where their parts stand, in f32: products of heads
// with scale, biases, masks, soft cap and shared keys around a softmax over the last axis; norms over the last axis.
// Results are the same but for rounding, except for a query that sees nothing because all its biases are -infinity or
// the lowest number: it gets the mean of the values; zeros that a graph puts in the place of NaN stay zeros.
Graph find_composites(const Graph& graph, LeafNumber number_of_leaf);

}  // namespace transom
