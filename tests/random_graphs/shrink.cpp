// SPDX-License-Identifier: Apache-2.0
#include "graph/ir/tensor_map.h"
#include "random_graphs/comparison.h"
#include "random_graphs/expectation.h"

namespace transom::random_graphs {
namespace {

// What two failures must share to be the same: the part of the text before the details.
std::string kind_of_failure(const Failure& failure) { return failure.what.substr(0, failure.what.find(':')); }

class Shrinker {
 public:
  Shrinker(GraphCase graph_case, const Failure& failure)
      : case_(std::move(graph_case)), kind_(kind_of_failure(failure)) {
    with_reference_ = kind_.starts_with("reference");
  }

  GraphCase run(const Failure& failure) {
    if (failure.element >= 0) try_case(with_outputs({case_.graph.outputs[failure.output]}));
    earliest_outputs();
    for (bool smaller = true; smaller;) smaller = cut_something();
    return case_;
  }

 private:
  bool try_case(GraphCase candidate) {
    if (candidate.graph.nodes.empty()) return false;
    const auto failure = check_case(candidate, with_reference_);
    if (!failure || kind_of_failure(*failure) != kind_) return false;
    case_ = std::move(candidate);
    return true;
  }

  // The case with other outputs, and only the inputs that these need.
  GraphCase with_outputs(std::vector<Tensor> outputs, std::vector<Tensor> more_inputs = {},
                         std::vector<Array> more_values = {}) const {
    TensorMap<const Array*> values;
    for (size_t i = 0; i < case_.inputs.size(); ++i) values.emplace(case_.graph.inputs[i], &case_.inputs[i]);
    for (size_t i = 0; i < more_inputs.size(); ++i) values.emplace(more_inputs[i], &more_values[i]);
    GraphCase result;
    result.graph = make_graph(std::move(outputs));
    for (const Tensor& input : result.graph.inputs) result.inputs.push_back(*values.at(input));
    return result;
  }

  // The first node whose outputs fail as the only ones.
  void earliest_outputs() {
    for (const std::shared_ptr<Node>& node : std::vector(case_.graph.nodes))
      for (const Tensor& output : outputs_of(node))
        if (try_case(with_outputs({output}))) return;
  }

  // Makes the outputs of one node inputs.
  bool cut_something() {
    const std::vector<std::shared_ptr<Node>> nodes = case_.graph.nodes;
    const TensorMap<Array> values = Expectation(case_).values();
    // From the end: what goes away at once is most.
    for (auto node = nodes.rbegin(); node != nodes.rend(); ++node) {
      std::vector<Tensor> cut;
      std::vector<Array> cut_values;
      bool is_output = false;
      for (const Tensor& output : outputs_of(*node)) {
        for (const Tensor& other : case_.graph.outputs) is_output |= other.same_as(output);
        cut.push_back(make_input(output.type()));
        cut_values.push_back(values.at(output));
      }
      if (is_output) continue;
      const Graph graph = rewrite(case_.graph, [&](const Node& other, const std::vector<Tensor>&) {
        return &other == node->get() ? cut : std::vector<Tensor>();
      });
      if (try_case(with_outputs(graph.outputs, cut, cut_values))) return true;
    }
    return false;
  }

  GraphCase case_;
  std::string kind_;
  bool with_reference_;
};

}  // namespace

GraphCase shrink(const GraphCase& graph_case, const Failure& failure) {
  return Shrinker(graph_case, failure).run(failure);
}

}  // namespace transom::random_graphs
