// SPDX-License-Identifier: Apache-2.0
// A graph with values for its inputs, and its text form, in which failures are kept:
//   input 1 -0.5 nan
//   graph(%0: f32[3]) { ... }
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "graph/ir/graph.h"

namespace transom::random_graphs {

struct GraphCase {
  Graph graph;
  std::vector<Array> inputs;  // rounded to their element types
};

// The case of a seed, the same on every machine. Graphs of up to about 30 operations over the whole set, with
// gradients, on shapes with extents 0, 1 and primes; now and then on larger ones.
GraphCase random_case(uint64_t seed);

std::string print_case(const GraphCase& graph_case);
GraphCase parse_case(std::string_view text);

// Elements as devices have them.
std::vector<std::byte> to_bytes(Array array);

// Random numbers that are the same with every library.
class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed * 0x9E3779B97F4A7C15u + 0x2545F4914F6CDD1Du) { bits(), bits(); }
  uint64_t bits();
  int64_t below(int64_t limit) { return static_cast<int64_t>(bits() % static_cast<uint64_t>(limit)); }
  int64_t between(int64_t low, int64_t high) { return low + below(high - low + 1); }
  bool chance(double probability) { return unit() < probability; }
  double unit() { return static_cast<double>(bits() >> 11) * 0x1p-53; }
  template <typename List>
  const auto& one_of(const List& list) {
    return std::data(list)[static_cast<size_t>(below(static_cast<int64_t>(std::size(list))))];
  }

 private:
  uint64_t state_;
};

}  // namespace transom::random_graphs
