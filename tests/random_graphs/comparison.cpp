// SPDX-License-Identifier: Apache-2.0
#include "random_graphs/comparison.h"

#include <algorithm>
#include <cmath>
#include <functional>

#include "base/error.h"
#include "graph/ops/array_bytes.h"
#include "graph/passes/composites/find_composites.h"
#include "random_graphs/expectation.h"
#include "runtime/programs/program.h"
#include "runtime/tensor/mode_scope.h"
#include "transom/compile.h"

namespace transom::random_graphs {
namespace {

using Results = std::vector<std::vector<std::byte>>;

std::vector<Tensor> tensors_of(const GraphCase& graph_case) {
  std::vector<Tensor> inputs;
  for (const Array& input : graph_case.inputs) inputs.push_back(Tensor::from_bytes(to_bytes(input), input.type));
  return inputs;
}

Results bytes_of(const std::vector<Tensor>& tensors) {
  Results results;
  for (const Tensor& tensor : tensors) results.push_back(tensor.to_bytes());
  return results;
}

// `keep`: the inputs stay; else their memory may become that of results.
Results run_at_once(const GraphCase& graph_case, Mode mode, bool keep) {
  const ModeScope scope(mode);
  const NoGradient no_gradient;
  std::vector<Tensor> inputs = tensors_of(graph_case);
  const std::vector<Tensor> outputs = inline_graph(graph_case.graph, inputs);
  if (!keep) inputs.clear();
  eval(outputs);
  return bytes_of(outputs);
}

// The second call, which finds the program (or replays it).
Results run_compiled(const GraphCase& graph_case, bool capture) {
  const ModeScope scope(capture ? Mode::kGraph : Mode::kCompile);
  const NoGradient no_gradient;
  const CompiledFunction function =
      compile([&](const std::vector<Tensor>& arguments) { return inline_graph(graph_case.graph, arguments); },
              {.name = "random graph", .capture = capture, .donated = {}});
  function(tensors_of(graph_case));
  return bytes_of(function(tensors_of(graph_case)));
}

Results run_on(const std::string& name, const GraphCase& graph_case) {
  const std::shared_ptr<Device> device = Device::open(name);
  const std::vector<bool> none(graph_case.inputs.size());
  const Program program(device, graph_case.graph, {none, none});
  std::vector<std::shared_ptr<Buffer>> inputs;
  for (const Array& input : graph_case.inputs) inputs.push_back(device->upload(to_bytes(input)));
  Results results;
  for (const auto& buffer : program.run(inputs)) {
    std::vector<std::byte>& bytes = results.emplace_back(buffer->bytes());
    buffer->read(bytes);
  }
  for (size_t o = 0; o < results.size(); ++o) {
    const Type& type = graph_case.graph.outputs[o].type();
    results[o].resize(static_cast<size_t>(elements(type.shape)) * size_of(type.dtype));
  }
  return results;
}

// The graph with the composites that it spells out, as files of other frameworks are run. Leaves of one element are
// numbers that the patterns may look at.
GraphCase with_composites(const GraphCase& graph_case) {
  const CompilerScope compiler;
  const Graph& graph = graph_case.graph;
  const auto number_of_leaf = [&](const Tensor& leaf) -> std::optional<double> {
    for (size_t i = 0; i < graph.inputs.size(); ++i)
      if (graph.inputs[i].same_as(leaf) && leaf.size() == 1) return graph_case.inputs[i].get(0);
    return std::nullopt;
  };
  GraphCase result{find_composites(graph, number_of_leaf), graph_case.inputs};
  verify(result.graph);
  return result;
}

// How often a number that is none is made of numbers, place by place.
int64_t overflows(const Graph& graph, const TensorMap<Array>& values) {
  int64_t count = 0;
  for (const std::shared_ptr<Node>& node : graph.nodes) {
    const Array& made = values.at(Tensor(node, 0));
    for (size_t i = 0; i < made.real.size(); ++i)
      count +=
          !std::isfinite(made.real[i]) && std::all_of(node->inputs.begin(), node->inputs.end(), [&](const Tensor& x) {
            const Array& read = values.at(x);
            return read.real.size() == made.real.size() && std::isfinite(read.real[i]);
          });
  }
  return count;
}

std::string number(const Array& array, int64_t i) {
  return array.floating() ? fmt::format("{} ({:a})", array.get(i), array.get(i))
                          : std::to_string(array.integer[static_cast<size_t>(i)]);
}

// NaN is NaN, whatever its bits; zeros are equal whatever their signs, since graphs lose additions of zero.
std::optional<Failure> compare_bits(const GraphCase& graph_case, const Results& found, const Results& expected,
                                    const std::string& what) {
  for (size_t o = 0; o < expected.size(); ++o) {
    if (found[o] == expected[o]) continue;
    const Type& type = graph_case.graph.outputs[o].type();
    const Array x = load_array(found[o].data(), type), y = load_array(expected[o].data(), type);
    const size_t size = size_of(type.dtype);
    for (int64_t i = 0; i < elements(type.shape); ++i) {
      if (x.floating() && (x.get(i) == y.get(i) || (std::isnan(x.get(i)) && std::isnan(y.get(i))))) continue;
      const auto at = static_cast<std::ptrdiff_t>(static_cast<size_t>(i) * size);
      if (!std::equal(found[o].begin() + at, found[o].begin() + at + static_cast<std::ptrdiff_t>(size),
                      expected[o].begin() + at))
        return Failure{what, o, i, fmt::format("found {}, expected {}", number(x, i), number(y, i))};
    }
  }
  return std::nullopt;
}

std::optional<Failure> compare_values(const Results& found, Expectation& expectation, const std::string& what) {
  for (size_t o = 0; o < found.size(); ++o) {
    const Array values = load_array(found[o].data(), expectation.output(o).type);
    if (expectation.first_wrong(o, values) < 0) continue;
    // What walks do not cover yet decides how many there are. A sum that cancels to 0 does so in one of dozens.
    for (int walks = 2; walks <= 256 && expectation.first_wrong(o, values) >= 0; walks *= 2)
      expectation.add_walks(walks);
    if (const int64_t i = expectation.first_wrong(o, values); i >= 0)
      return Failure{what, o, i,
                     fmt::format("found {}, expected {}", number(values, i), number(expectation.output(o), i))};
  }
  return std::nullopt;
}

}  // namespace

std::optional<Failure> check_case(const GraphCase& graph_case, bool with_reference) {
  std::string running = "the records";
  try {
    Expectation expectation(graph_case);
    if (with_reference) {
      running = "reference";
      if (auto failure = compare_values(run_on("reference", graph_case), expectation, "reference differs"))
        return failure;
    }
    running = "lazy";
    const Results lazy = run_at_once(graph_case, Mode::kLazy, true);
    if (auto failure = compare_values(lazy, expectation, device_name() + " differs from the reference")) return failure;
    running = "with composites";
    const GraphCase with = with_composites(graph_case);
    const Results composed = run_at_once(with, Mode::kLazy, true);
    if (auto failure = compare_values(composed, expectation, "with composites it differs")) {
      // What a composite is spelled as may go beyond its type on the way to a number that the composite gives: twice
      // the largest numbers in a GELU, whose half is none any more, and whose power -1 is 0.
      Expectation of_composites(with);
      const bool may_differ =
          overflows(graph_case.graph, expectation.values()) > overflows(with.graph, of_composites.values());
      if (!may_differ || compare_values(composed, of_composites, "")) return failure;
    }
    const std::pair<const char*, std::function<Results()>> others[] = {
        {"lazy with donated inputs", [&] { return run_at_once(graph_case, Mode::kLazy, false); }},
        {"eager", [&] { return run_at_once(graph_case, Mode::kEager, true); }},
        {"compile", [&] { return run_compiled(graph_case, false); }},
        {"graph", [&] { return run_compiled(graph_case, true); }}};
    for (const auto& [name, run] : others) {
      running = name;
      if (auto failure = compare_bits(graph_case, run(), lazy, fmt::format("{} differs from lazy", name)))
        return failure;
    }
  } catch (const std::exception& error) {
    return Failure{running + ": " + error.what(), 0, -1, ""};
  }
  return std::nullopt;
}

}  // namespace transom::random_graphs
