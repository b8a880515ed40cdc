// SPDX-License-Identifier: Apache-2.0
#include "passes/find_composites.h"

#include "passes/passes.h"
#include "passes/spelled_out.h"

namespace transom {

Graph find_composites(const Graph& graph, LeafNumber number_of_leaf) {
  const Numbers numbers(std::move(number_of_leaf));
  // What a graph computes twice is one value afterwards, so that patterns may compare.
  return find_attention(find_norms(find_gelu(simplify(graph), numbers), numbers), numbers);
}

}  // namespace transom
