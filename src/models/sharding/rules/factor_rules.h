// SPDX-License-Identifier: Apache-2.0
// How an operation may be cut: its dimensions named by factors, as the letters of an einsum. "i k, j k -> i j" says
// that a product of matrices may be cut along i or j, each process making a part of the result, or along k, each making
// a summand. The idea is that of the sharding rules of XLA's Shardy.
#pragma once

#include <optional>
#include <vector>

#include "graph/ir/node.h"

namespace transom {

struct FactorRule {
  enum class Kind {
    kFree,   // cut in inputs and outputs alike; an output without it may not exist
    kSum,    // outputs without it are sums over it
    kWhole,  // never cut
  };
  struct Factor {
    int64_t extent;
    Kind kind;
  };
  using Dimension = std::vector<int>;  // factors, the outer one first; their product is the extent
  using Operand = std::vector<Dimension>;
  std::vector<Factor> factors;
  std::vector<Operand> inputs, outputs;
  // Inputs that are added to the result once, whatever is summed: where a kSum factor is cut, all but the first
  // process take zeros for them.
  std::vector<size_t> added_once;
};

// None: nothing is known of the operation; a composite may be taken apart, anything else needs whole inputs.
std::optional<FactorRule> factor_rule(const Node& node);

// The attributes of the node for parts of its inputs and outputs.
Attributes local_attributes(const Node& node, const std::vector<Shape>& local_inputs, const Shape& local_output);

// Whether output i of the operation is linear in its inputs `linear` taken together, so that it may be computed of
// summands. Inputs that are not partial count as factors.
bool is_linear(const Node& node, const std::vector<bool>& partial);

}  // namespace transom
