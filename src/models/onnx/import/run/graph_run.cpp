// SPDX-License-Identifier: Apache-2.0
#include "models/onnx/import/run/graph_run.h"

#include <algorithm>
#include <unordered_set>

#include "base/error.h"
#include "graph/ir/tensor_map.h"
#include "models/onnx/import/elementwise/element_values.h"

namespace transom::onnx {
namespace {

constexpr int kMaximumDepth = 32;            // of bodies in bodies and functions in functions
constexpr size_t kMaximumCalls = 4'000'000;  // of operators in one pass: loops are unrolled
constexpr int64_t kMostOfAShape = 64;        // integers; more are no shape

// What a node reads: its inputs, and what the graphs in its attributes read from around them.
template <typename Visit>
void for_each_read(const Node& node, const Visit& visit) {
  for (const std::string& input : node.inputs) visit(std::string_view(input));
  for (const Attribute& attribute : node.attributes) {
    if (!attribute.graph) continue;
    for (const Node& inner : attribute.graph->nodes) for_each_read(inner, visit);
    for (const ValueInfo& output : attribute.graph->outputs) visit(std::string_view(output.name));
  }
}

bool is_computed(const Tensor& tensor) { return tensor.node()->computed(tensor.output()); }

// Whether it is computed at once, since a program for its shape would hardly be met again. Shapes themselves wait.
bool is_computed_at_once(const Value& value) {
  return value.varies && value.is_tensor() &&
         (!transom::is_integer(value.tensor.dtype()) || value.tensor.size() > kMostOfAShape);
}

bool holds_a_graph(const Node& node) {
  return std::any_of(node.attributes.begin(), node.attributes.end(),
                     [](const Attribute& attribute) { return attribute.graph != nullptr; });
}

}  // namespace

const GraphRun::LastReads& GraphRun::last_reads_of(const std::vector<Node>& nodes,
                                                   const std::vector<std::string_view>& results) {
  const auto [found, is_new] = last_reads_.try_emplace(&nodes);
  LastReads& last = found->second;
  if (!is_new) return last;
  std::unordered_set<std::string_view> later(results.begin(), results.end());
  last.resize(nodes.size());
  for (size_t place = nodes.size(); place-- > 0;)
    for_each_read(nodes[place], [&](std::string_view name) {
      if (later.insert(name).second) last[place].push_back(name);
    });
  return last;
}

bool GraphRun::waits(const Tensor& tensor) {
  return !is_computed(tensor) && host_values_.source_of(tensor) == HostValues::Source::kData;
}

void GraphRun::compute_live(const Tensor& value) {
  TensorSet seen{value};
  std::vector<Tensor> live{value};
  for (const Scope* scope = scope_; scope; scope = scope->function ? scope->caller : scope->outer)
    for (const auto& [name, one] : scope->values)
      if (one.is_tensor() && waits(one.tensor) && seen.insert(one.tensor).second) live.push_back(one.tensor);
  // In an order that is the same at each call.
  std::sort(live.begin(), live.end(), [](const Tensor& a, const Tensor& b) {
    return std::pair(a.node()->sequence, a.output()) < std::pair(b.node()->sequence, b.output());
  });
  eval(live);
}

const Value* GraphRun::find(const Scope& scope, std::string_view name) const {
  for (const Scope* one = &scope; one; one = one->outer)
    if (const auto found = one->values.find(name); found != one->values.end()) return &found->second;
  return nullptr;
}

Value GraphRun::constant_value(const TensorData& data) const {
  const auto found = constants_.find(&data);
  return found != constants_.end() ? found->second : value_of(data, where());
}

const Attribute* GraphRun::function_attribute(const std::string& name) const {
  const Scope* scope = scope_;
  while (scope && !scope->function) scope = scope->outer;
  while (scope && scope->function) {
    for (const Attribute& attribute : scope->call->attributes)
      if (attribute.name == name) {
        if (attribute.reference.empty()) return &attribute;
        // The call stands in a function itself.
        const Scope* outer = scope->caller;
        while (outer && !outer->function) outer = outer->outer;
        if (!outer) return nullptr;
        for (const Attribute& given : outer->call->attributes)
          if (given.name == attribute.reference && given.reference.empty()) return &given;
        for (const Attribute& given : outer->function->defaults)
          if (given.name == attribute.reference) return &given;
        return nullptr;
      }
    for (const Attribute& attribute : scope->function->defaults)
      if (attribute.name == name) return &attribute;
    return nullptr;
  }
  return nullptr;
}

std::vector<Value> GraphRun::run_graph(const Graph& graph, Scope& scope) {
  for (const auto& data : graph.initializers)
    if (!scope.values.contains(data->name)) scope.values.emplace(data->name, constant_value(*data));
  std::vector<std::string_view> names;
  for (const ValueInfo& output : graph.outputs) names.emplace_back(output.name);
  run_nodes(graph.nodes, names, scope);
  std::vector<Value> outputs;
  for (const ValueInfo& output : graph.outputs) {
    const Value* value = find(scope, output.name);
    if (!value) fail("{}: graph {}: nothing gives its output {}", where(), quoted(graph.name), quoted(output.name));
    outputs.push_back(*value);
  }
  return outputs;
}

std::vector<Value> GraphRun::run(const std::unordered_map<std::string, Value>& inputs) {
  Scope scope;
  scope.opsets = &model_.opsets;
  for (const auto& [name, value] : inputs) {
    scope.values.emplace(name, value);
    if (value.is_tensor() && is_computed(value.tensor)) host_values_.mark_data(value.tensor);
  }
  return run_graph(model_.graph, scope);
}

std::vector<Value> GraphRun::run_body(const Call& call, const Graph& body, std::vector<Value> inputs) {
  if (inputs.size() > body.inputs.size())
    call.invalid(fmt::format("its body takes {} inputs, {} are given", body.inputs.size(), inputs.size()));
  Scope scope;
  scope.outer = scope_;
  scope.opsets = scope_->opsets;
  for (size_t i = 0; i < inputs.size(); ++i) scope.values.insert_or_assign(body.inputs[i].name, std::move(inputs[i]));
  return run_graph(body, scope);
}

void GraphRun::run_nodes(const std::vector<Node>& nodes, const std::vector<std::string_view>& results, Scope& scope) {
  if (depth_ >= kMaximumDepth) fail("{}: bodies and functions nest more than {} deep", where(), kMaximumDepth);
  const Entered entered(*this, scope);
  const LastReads& last_reads = last_reads_of(nodes, results);
  for (size_t place = 0; place < nodes.size(); ++place) {
    run_node(nodes[place], scope);
    for (const std::string_view name : last_reads[place]) scope.values.erase(name);
  }
}

const Function* GraphRun::find_function(const Node& node) const {
  for (const Function& function : model_.functions)
    if (function.name == node.op_type && function.domain == node.domain && function.overload == node.overload)
      return &function;
  return nullptr;
}

void GraphRun::run_node(const Node& node, Scope& scope) {
  if (++calls_ > kMaximumCalls) fail("{}: its loops run more than {} nodes", where(), kMaximumCalls);
  std::vector<Value> inputs;
  for (const std::string& name : node.inputs) {
    if (name.empty()) {
      inputs.emplace_back();
      continue;
    }
    const Value* value = find(scope, name);
    if (!value)
      fail("{}: node {} ({}): nothing before it gives its input {}", where(), quoted(node.name), quoted(node.op_type),
           quoted(name));
    inputs.push_back(*value);
  }
  Results results = results_of(node, std::move(inputs), scope);
  if (results.size() < node.outputs.size()) {
    for (size_t i = results.size(); i < node.outputs.size(); ++i)
      if (!node.outputs[i].empty())
        fail("{}: node {}: operator {}: output {} is not supported", where(), quoted(node.name), quoted(node.op_type),
             i);
  }
  for (size_t i = 0; i < std::min(results.size(), node.outputs.size()); ++i)
    if (!node.outputs[i].empty()) scope.values.insert_or_assign(node.outputs[i], std::move(results[i]));
}

Results GraphRun::results_of(const Node& node, std::vector<Value> inputs, Scope& scope) {
  if (const Function* function = find_function(node)) return call_function(*function, node, std::move(inputs), scope);
  const auto follows_from_data = [&](const Value& value) {
    return value.is_tensor() && host_values_.source_of(value.tensor) == HostValues::Source::kData;
  };
  bool varies = std::any_of(inputs.begin(), inputs.end(), [](const Value& input) { return input.varies; });
  const bool at_once = !holds_a_graph(node) && std::any_of(inputs.begin(), inputs.end(), is_computed_at_once);
  // A branch is one of two; a loop may have any number of turns.
  varies |= node.op_type == "Loop" && !inputs.empty() && follows_from_data(inputs[0]);
  // What waits has the same shapes at each call, and stays apart from what follows.
  if (at_once)
    for (const Value& input : inputs)
      if (input.is_tensor() && waits(input.tensor)) compute_live(input.tensor);
  host_values_.take_data_was_read();
  Results results;
  {
    const auto opset = scope.opsets->find(node.domain);
    // Files of before IR 3 name no operator sets.
    const int64_t version = opset != scope.opsets->end() ? opset->second : 1;
    const OperatorRecord* record = find_operator(node.domain, node.op_type, version);
    if (!record)
      fail("{}: node {}: operator {} of {}, version {}, is not supported", where(), quoted(node.name),
           quoted(node.op_type), node.domain.empty() ? "ai.onnx" : quoted(node.domain), version);
    Call call(*this, node, record->name, record->domain, version, std::move(inputs));
    try {
      results = record->run(call);
    } catch (const Error& error) {
      // What a tensor operation refuses does not know of the file.
      if (std::string_view(error.what()).starts_with(where())) throw;
      fail("{}: {}", call.where(), error.what());
    }
  }
  const bool all_vary = host_values_.take_data_was_read() || varies;
  std::vector<Tensor> computed;
  for (Value& result : results) {
    result.varies = result.varies || all_vary;
    if (at_once && result.is_tensor() && !is_computed(result.tensor)) computed.push_back(result.tensor);
  }
  if (!computed.empty()) eval(computed);
  return results;
}

Results GraphRun::call_function(const Function& function, const Node& node, std::vector<Value> inputs, Scope& scope) {
  if (inputs.size() > function.inputs.size())
    fail("{}: node {}: function {} takes {} inputs, {} are given", where(), quoted(node.name), quoted(function.name),
         function.inputs.size(), inputs.size());
  Scope body;
  body.opsets = function.opsets.empty() ? scope.opsets : &function.opsets;
  body.call = &node;
  body.function = &function;
  body.caller = &scope;
  for (size_t i = 0; i < function.inputs.size(); ++i)
    body.values.insert_or_assign(function.inputs[i], i < inputs.size() ? std::move(inputs[i]) : Value());
  run_nodes(function.nodes, {function.outputs.begin(), function.outputs.end()}, body);
  Results results;
  for (const std::string& name : function.outputs) {
    const Value* value = find(body, name);
    results.push_back(value ? *value : Value());
  }
  return results;
}

}  // namespace transom::onnx
