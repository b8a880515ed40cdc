// SPDX-License-Identifier: Apache-2.0
// What operations are tried with: the samples of their records, those in the other element types, and larger and odder
// ones drawn from a seed.
#pragma once

#include <random>
#include <string>
#include <vector>

#include "graph/ir/graph.h"

namespace transom::certify {

enum class Values {
  kUniform,  // as the sample says
  kTies,     // few different numbers
  kSpecial,  // NaN, infinities, both zeros and the ends of the range among others
  kWide,     // integers of both signs, far out; starts beyond the ends
};

struct Case {
  const Operation* operation = nullptr;
  Sample sample;
  Values values = Values::kUniform;
  std::shared_ptr<const Graph> graph;  // of a chain of element-wise operations, which a device may claim as a "fusion"

  std::string operation_name() const;
  DType dtype() const;       // of the first floating input, else of the first input, else of the first output
  std::string text() const;  // add(f32[2, 3], f32[2, 3])
};

// All cases, in the order of the operations' names; the same for the same seed.
std::vector<Case> all_cases(uint64_t seed);

// The graph of a case, and values for its inputs.
Graph graph_of(const Case& c);
std::vector<Array> inputs_of(const Case& c, uint64_t seed);

}  // namespace transom::certify
