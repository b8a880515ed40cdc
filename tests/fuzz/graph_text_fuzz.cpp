// SPDX-License-Identifier: Apache-2.0
// Any bytes as the text of a graph: what parse_graph accepts must verify, print, and read back as itself.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "graph/ir/graph.h"
#include "transom/error.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace transom;
  Graph graph;
  try {
    graph = parse_graph({reinterpret_cast<const char*>(data), size});
  } catch (const Error&) {
    return 0;
  }
  verify(graph);
  const std::string text = print_graph(graph);
  if (print_graph(parse_graph(text)) != text) std::abort();
  return 0;
}
