// SPDX-License-Identifier: Apache-2.0
#include "random_graphs/graph_case.h"

#include <cstdlib>
#include <cstring>

#include "base/error.h"
#include "graph/ops/array_bytes.h"
#include "graph/ops/rules.h"

namespace transom::random_graphs {
uint64_t Random::bits() {  // splitmix64
  uint64_t z = state_ += 0x9E3779B97F4A7C15u;
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
  return z ^ (z >> 31);
}

std::vector<std::byte> to_bytes(Array array) {
  std::vector<std::byte> bytes(static_cast<size_t>(elements(array.type.shape)) * size_of(array.type.dtype));
  store_array(array, bytes.data());
  return bytes;
}

std::string print_case(const GraphCase& graph_case) {
  std::string text;
  for (const Array& input : graph_case.inputs)
    text += input.floating() ? fmt::format("input {}\n", fmt::join(input.real, " "))
                             : fmt::format("input {}\n", fmt::join(input.integer, " "));
  return text + print_graph(graph_case.graph);
}

GraphCase parse_case(std::string_view text) {
  GraphCase result;
  std::vector<std::string> lines;
  while (text.starts_with("input") || text.starts_with("#")) {
    const size_t end = text.find('\n');
    if (end == text.npos) fail("a case: expected a graph behind its inputs");
    if (text.starts_with("input")) lines.emplace_back(text.substr(5, end - 5));
    text.remove_prefix(end + 1);
  }
  result.graph = parse_graph(text);
  if (lines.size() != result.graph.inputs.size())
    fail("a case: {} lines of values for {} inputs", lines.size(), result.graph.inputs.size());
  for (size_t i = 0; i < lines.size(); ++i) {
    Array array(result.graph.inputs[i].type());
    const char* place = lines[i].c_str();
    for (int64_t k = 0; k < elements(array.type.shape); ++k) {
      char* end = nullptr;
      if (array.floating()) array.real[static_cast<size_t>(k)] = std::strtod(place, &end);
      else array.integer[static_cast<size_t>(k)] = std::strtoll(place, &end, 10);
      if (end == place) fail("a case: input {} has {} values, {} are expected", i, k, elements(array.type.shape));
      place = end;
    }
    round_to_dtype(array);
    result.inputs.push_back(std::move(array));
  }
  return result;
}

}  // namespace transom::random_graphs
