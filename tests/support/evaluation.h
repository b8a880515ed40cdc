// SPDX-License-Identifier: Apache-2.0
// A walk over graphs that computes with the records alone: `evaluate` for primitives, `decompose` for composites,
// values in float64 and never rounded. What the tests of operations and gradients stand on; no device is needed.
#pragma once

#include <random>
#include <span>
#include <vector>

#include "base/error.h"
#include "graph/ir/graph.h"
#include "graph/ir/tensor_map.h"

namespace transom::test {

inline std::vector<Array> evaluate_graph(const Graph& graph, std::span<const Array> inputs);

// The outputs of one operation for the given inputs.
inline std::vector<Array> evaluate_operation(const Operation& operation, const Attributes& attributes,
                                             std::span<const Array> inputs) {
  std::vector<Type> types;
  for (const Array& input : inputs) types.push_back(input.type);
  if (operation.evaluate) {
    std::vector<Array> outputs;
    for (const Type& type : operation.infer({operation, types, attributes})) outputs.emplace_back(type);
    operation.evaluate(inputs, attributes, outputs);
    return outputs;
  }
  std::vector<Tensor> leaves;
  for (const Type& type : types) leaves.push_back(make_input(type));
  return evaluate_graph(make_graph(operation.decompose(leaves, attributes), leaves), inputs);
}

inline std::vector<Array> evaluate_graph(const Graph& graph, std::span<const Array> inputs) {
  TensorMap<Array> values;
  const auto values_of = [&](const std::vector<Tensor>& tensors) {
    std::vector<Array> result;
    for (const Tensor& tensor : tensors) result.push_back(values.at(tensor));
    return result;
  };
  if (inputs.size() != graph.inputs.size())
    fail("a graph of {} inputs got {} values", graph.inputs.size(), inputs.size());
  for (size_t i = 0; i < inputs.size(); ++i) values.emplace(graph.inputs[i], inputs[i]);
  for (const std::shared_ptr<Node>& node : graph.nodes) {
    const std::vector<Array> arguments = values_of(node->inputs);
    const std::vector<Array> outputs = node->region ? evaluate_graph(*node->region, arguments)
                                                    : evaluate_operation(*node->operation, node->attributes, arguments);
    for (size_t i = 0; i < outputs.size(); ++i) values.insert_or_assign(Tensor(node, static_cast<int>(i)), outputs[i]);
  }
  return values_of(graph.outputs);
}

// A leaf whose value is known: what tests write expressions over.
struct Leaf {
  Tensor tensor;
  Array value;
};

inline Leaf leaf(Array value) { return {make_input(value.type), value}; }
inline Leaf leaf(const Shape& shape, std::vector<double> values, DType dtype = DType::kFloat64) {
  Array array({dtype, shape});
  if (values.size() != static_cast<size_t>(elements(shape))) fail("{} values for {}", values.size(), to_string(shape));
  for (size_t i = 0; i < values.size(); ++i) array.set(static_cast<int64_t>(i), values[i]);
  return leaf(std::move(array));
}

// The values of `outputs`, which are computed from the leaves (and constants).
inline std::vector<Array> evaluate(const std::vector<Tensor>& outputs, const std::vector<Leaf>& leaves) {
  std::vector<Tensor> tensors;
  std::vector<Array> values;
  for (const Leaf& l : leaves) {
    tensors.push_back(l.tensor);
    values.push_back(l.value);
  }
  return evaluate_graph(make_graph(outputs, tensors), values);
}
inline std::vector<double> evaluate(const Tensor& output, const std::vector<Leaf>& leaves = {}) {
  const Array array = evaluate(std::vector<Tensor>{output}, leaves)[0];
  if (array.floating()) return array.real;
  return {array.integer.begin(), array.integer.end()};
}

// Values for a sample's input: floating ones in [low, high], integers in [0, limit).
inline Array random_array(const Type& type, double low, double high, int64_t limit, std::mt19937_64& random) {
  Array array(type);
  std::uniform_real_distribution<double> real(low, high);
  std::uniform_int_distribution<int64_t> integer(0, (type.dtype == DType::kBool ? 2 : limit) - 1);
  for (double& x : array.real) x = real(random);
  for (int64_t& x : array.integer) x = integer(random);
  return array;
}

inline std::vector<Array> random_inputs(const Sample& sample, std::mt19937_64& random) {
  std::vector<Array> arrays;
  for (const Type& type : sample.inputs)
    arrays.push_back(random_array(type, sample.low, sample.high, sample.index_limit, random));
  return arrays;
}

}  // namespace transom::test
