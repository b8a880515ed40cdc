// SPDX-License-Identifier: Apache-2.0
// One pass through the graph of a file: each node's operator is called with tensors, which gather into a graph of
// Transom's own operations, as those of any model do.
//
// Where shapes follow from data, that graph is cut: what waits when the first such value is read is computed as one
// program, which every call finds again. What comes behind has other shapes at each call, and is computed node by node:
// programs of one node are compiled in no time, and many of them are alike.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "models/onnx/import/run/host_values.h"
#include "models/onnx/import/run/operators.h"

namespace transom::onnx {

// For one thread; it ends with the pass.
class GraphRun {
 public:
  // `constants`: the initializers of the file's graphs as values, made once; they outlive the pass, as `computing`
  // does.
  using Constants = std::unordered_map<const TensorData*, Value>;
  GraphRun(const Model& model, const Constants& constants, const Computing& computing)
      : model_(model),
        constants_(constants),
        computing_(computing),
        host_values_([this](const Tensor& value) { compute_live(value); }) {}

  // The outputs of the file's graph in its order. `inputs` go before initializers of the same name.
  std::vector<Value> run(const std::unordered_map<std::string, Value>& inputs);

  // The outputs of a graph in an attribute of a node, which sees the names around that node.
  std::vector<Value> run_body(const Call& call, const Graph& body, std::vector<Value> inputs);

  // An initializer or the tensor of an attribute.
  Value constant_value(const TensorData& data) const;

  HostValues& host_values() { return host_values_; }
  const Computing& computing() const { return computing_; }
  const std::string& where() const { return model_.where; }
  // Within a function of the file: the attribute of its call, or its default. Null where there is none.
  const Attribute* function_attribute(const std::string& name) const;

 private:
  struct Scope {
    std::unordered_map<std::string_view, Value> values;
    const Scope* outer = nullptr;
    const std::map<std::string, int64_t>* opsets = nullptr;
    const Node* call = nullptr;          // of the function whose body this is
    const Function* function = nullptr;  // null: a graph
    const Scope* caller = nullptr;       // of a function: where it was called
  };
  // The scope that is run now, for as long as this lives.
  class Entered {
   public:
    Entered(GraphRun& run, Scope& scope) : run_(run), before_(run.scope_) { run.scope_ = &scope, ++run.depth_; }
    ~Entered() { run_.scope_ = before_, --run_.depth_; }
    Entered(const Entered&) = delete;
    Entered& operator=(const Entered&) = delete;

   private:
    GraphRun& run_;
    Scope* before_;
  };
  const Value* find(const Scope& scope, std::string_view name) const;
  void run_nodes(const std::vector<Node>& nodes, const std::vector<std::string_view>& results, Scope& scope);
  void run_node(const Node& node, Scope& scope);
  Results results_of(const Node& node, std::vector<Value> inputs, Scope& scope);
  // Whether a value follows from data and is not yet computed.
  bool waits(const Tensor& tensor);
  // Computes a value with all others that wait and are read later on.
  void compute_live(const Tensor& value);
  // The names that no node behind the place reads, nor a result: by place.
  using LastReads = std::vector<std::vector<std::string_view>>;
  const LastReads& last_reads_of(const std::vector<Node>& nodes, const std::vector<std::string_view>& results);
  Results call_function(const Function& function, const Node& node, std::vector<Value> inputs, Scope& scope);
  std::vector<Value> run_graph(const Graph& graph, Scope& scope);
  const Function* find_function(const Node& node) const;

  const Model& model_;
  const Constants& constants_;
  const Computing& computing_;
  HostValues host_values_;
  Scope* scope_ = nullptr;  // that is run now
  std::unordered_map<const std::vector<Node>*, LastReads> last_reads_;
  int depth_ = 0;
  size_t calls_ = 0;
};

}  // namespace transom::onnx
