// SPDX-License-Identifier: Apache-2.0
// One model traced at several signatures, laid over each other: what differs between the traces is dynamic.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "graph/ir/graph.h"
#include "graph/ir/tensor_map.h"

namespace transom::onnx {

// How many signatures a model is traced at. Three numbers determine a linear form with one to spare; the fourth is
// there to be wrong where a form fits by accident.
inline constexpr size_t kSignatures = 4;

// A number of the graph, in each trace. The same in all: a constant.
using Extent = std::vector<int64_t>;
using Extents = std::vector<Extent>;

inline Extent constant_extent(int64_t value) { return Extent(kSignatures, value); }
inline bool is_constant(const Extent& extent) {
  for (const int64_t value : extent)
    if (value != extent[0]) return false;
  return true;
}

// The traces of one function. Errors: they have different structures, which the message tells by node and module.
class Traces {
 public:
  // Graphs with the arguments first among their inputs, and for each the tensors that its inputs stand for: those
  // behind the arguments are weights and tables.
  Traces(std::vector<Graph> graphs, std::vector<std::vector<Tensor>> leaves);

  // Its nodes and tensors stand for those of all.
  const Graph& graph() const { return graphs_[0]; }
  Extents shape_of(const Tensor& tensor) const;
  // An attribute of node `index`: a list of integers, an integer, a number.
  Extents ints(size_t index, std::string_view name) const;
  Extent integer(size_t index, std::string_view name) const;
  std::vector<double> real(size_t index, std::string_view name) const;
  // What input `index` stands for: a weight, or a table that the model made. Errors: the traces have different values.
  Tensor constant_input(size_t index) const;

 private:
  struct Place {
    size_t node;  // of the graph's nodes; inputs have kInput
    size_t output;
  };
  void check() const;
  std::vector<Graph> graphs_;
  std::vector<std::vector<Tensor>> leaves_;
  TensorMap<Place> places_;  // of the first graph
};

}  // namespace transom::onnx
