// SPDX-License-Identifier: Apache-2.0
// One case on the devices and in the modes: what must agree, and what did not.
#pragma once

#include <optional>

#include "random_graphs/graph_case.h"

namespace transom::random_graphs {

struct Failure {
  std::string what;   // "cpu differs from reference", "eager differs from lazy", an error's text
  size_t output = 0;  // the first that differs
  int64_t element = -1;
  std::string text;  // the values on both sides
};

// Runs the case on `device` in all modes and compares the bits, and with the records' float64.
// `with_reference`: runs it on the reference device too.
std::optional<Failure> check_case(const GraphCase& graph_case, bool with_reference = true);

// A smaller case that fails in the same way: only the outputs that are needed, what goes before replaced by its values.
GraphCase shrink(const GraphCase& graph_case, const Failure& failure);

}  // namespace transom::random_graphs
