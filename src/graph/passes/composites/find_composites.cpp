// SPDX-License-Identifier: Apache-2.0
#include "graph/passes/composites/find_composites.h"

#include <utility>

#include "graph/passes/composites/pattern_values.h"
#include "graph/passes/passes.h"

namespace transom {

Graph find_composites(const Graph& graph, LeafNumber number_of_leaf) {
  const LeafNumbers numbers(std::move(number_of_leaf));
  // What a graph computes twice is one value afterwards, so that patterns may compare.
  Graph found = simplify(graph);
  const auto step = [&](std::string_view name, Graph next) {
    found = std::move(next);
    verify_pass(name, found);
  };
  step("find_gelu", find_gelu(found, numbers));
  step("find_norms", find_norms(found, numbers));
  step("find_attention", find_attention(found, numbers));
  return found;
}

}  // namespace transom
