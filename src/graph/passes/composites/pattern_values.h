// SPDX-License-Identifier: Apache-2.0
// What rewrites that look for spelled-out composites ask of the values that they walk through.
#pragma once

#include <optional>
#include <utility>

#include "graph/passes/composites/find_composites.h"
#include "graph/passes/graph_builder.h"
#include "transom/ops.h"

namespace transom {

// x without factors that are numbers, and their product.
struct Scaled {
  Tensor value;
  double factor = 1;
};

class LeafNumbers {
 public:
  explicit LeafNumbers(LeafNumber of_leaf) : of_leaf_(std::move(of_leaf)) {}
  // The number that all elements of a floating tensor are: of a constant or a leaf, also where it is reshaped,
  // broadcast or cast.
  std::optional<double> operator()(Tensor x) const;
  // Whether it is this number, as f32 has it.
  bool is(const Tensor& x, double value) const;
  Scaled scaled(const Tensor& x) const;

 private:
  LeafNumber of_leaf_;
};

inline const Tensor& input_of(const Tensor& x, size_t i = 0) { return x.node()->inputs[i]; }

// A permutation of x, joined with the one that x may be.
Tensor permuted(const Tensor& x, Axes permutation);

Graph find_attention(const Graph& graph, const LeafNumbers& numbers);
Graph find_norms(const Graph& graph, const LeafNumbers& numbers);
Graph find_gelu(const Graph& graph, const LeafNumbers& numbers);

}  // namespace transom
