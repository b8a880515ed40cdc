// SPDX-License-Identifier: Apache-2.0
// What a graph must compute, and how far from it a device may be: Monte Carlo arithmetic. The graph is walked with the
// operation records in float64, values rounded to their element types after each operation, as the reference device
// does it; then some times more with random errors of a few units in the last place wherever a value had to be rounded.
// How far the results of these walks differ says how well each element is determined, through cancellation, long sums,
// overflow, and comparisons that may fall either way. (Parker, "Monte Carlo arithmetic", 1997.)
#pragma once

#include "graph/ir/tensor_map.h"
#include "random_graphs/graph_case.h"

namespace transom::random_graphs {

class Expectation {
 public:
  // The exact walk alone, which leaves room for two units in the last place.
  explicit Expectation(const GraphCase& graph_case);

  // Walks the graph `count` times more.
  void add_walks(int count);

  // The exact walk's values, of every tensor of the graph.
  const TensorMap<Array>& values() const { return values_; }
  const Array& output(size_t i) const { return outputs_[i]; }

  // The first element of output `i` that is further from the exact walk than it may be; -1 if there is none.
  int64_t first_wrong(size_t i, const Array& found) const;

 private:
  struct Spread {
    std::vector<double> low, high;  // over all walks, of what is finite in all of them
    std::vector<uint8_t> kinds;     // finite, infinities, NaN: what the walks gave. Finite among others leaves all open
  };

  const GraphCase& case_;
  TensorMap<Array> values_;
  std::vector<Array> outputs_;
  std::vector<Spread> spreads_;
  std::vector<bool> from_places_;  // outputs that come from places in an order
  uint64_t walks_ = 0;
};

// The distance of neighbouring numbers of this type at `value`.
double unit_in_last_place(DType dtype, double value);

}  // namespace transom::random_graphs
