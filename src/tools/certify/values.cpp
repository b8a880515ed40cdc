// SPDX-License-Identifier: Apache-2.0
#include "tools/certify/values.h"

#include <cmath>

#include "base/error.h"
#include "graph/ir/tensor_map.h"
#include "graph/ops/array_bytes.h"
#include "runtime/programs/program.h"

namespace transom::certify {
std::vector<std::byte> encode(Array& array) {
  std::vector<std::byte> bytes(static_cast<size_t>(elements(array.type.shape)) * size_of(array.type.dtype));
  store_array(array, bytes.data());
  return bytes;
}

std::vector<Array> evaluate(const Graph& graph, std::span<const Array> inputs) {
  TensorMap<Array> values;
  const auto values_of = [&](const std::vector<Tensor>& tensors) {
    std::vector<Array> result;
    for (const Tensor& tensor : tensors) result.push_back(values.at(tensor));
    return result;
  };
  if (inputs.size() != graph.inputs.size())
    fail(ErrorKind::kInternal, "a graph of {} inputs got {} values", graph.inputs.size(), inputs.size());
  for (size_t i = 0; i < inputs.size(); ++i) values.emplace(graph.inputs[i], inputs[i]);
  for (const std::shared_ptr<Node>& node : graph.nodes) {
    const std::vector<Array> arguments = values_of(node->inputs);
    std::vector<Array> outputs;
    if (node->region) {
      outputs = evaluate(*node->region, arguments);
    } else if (node->operation->evaluate) {
      for (const Type& type : node->types) outputs.emplace_back(type);
      node->operation->evaluate(arguments, node->attributes, outputs);
    } else {
      std::vector<Tensor> leaves;
      for (const Array& argument : arguments) leaves.push_back(make_input(argument.type));
      outputs = evaluate(make_graph(node->operation->decompose(leaves, node->attributes), leaves), arguments);
    }
    for (size_t i = 0; i < outputs.size(); ++i)
      values.insert_or_assign(Tensor(node, static_cast<int>(i)), std::move(outputs[i]));
  }
  return values_of(graph.outputs);
}

std::vector<Array> run_on(const std::shared_ptr<Device>& device, const Graph& graph, std::span<Array> inputs,
                          bool donate) {
  const std::vector<bool> donated(inputs.size(), donate), frozen(inputs.size(), false);
  const Program program(device, graph, {donated, frozen, false});  // the device alone, without the host's help
  std::vector<std::shared_ptr<Buffer>> buffers;
  for (Array& input : inputs) {
    const std::vector<std::byte> bytes = encode(input);
    buffers.push_back(device->upload(bytes));
  }
  const std::vector<std::shared_ptr<Buffer>> results = program.run(buffers);
  std::vector<Array> outputs;
  for (size_t i = 0; i < results.size(); ++i) {
    const Type& type = graph.outputs[i].type();
    std::vector<std::byte> bytes(static_cast<size_t>(elements(type.shape)) * size_of(type.dtype));
    results[i]->read(bytes);
    outputs.push_back(load_array(bytes.data(), type));
  }
  return outputs;
}

bool is_half(DType dtype) { return dtype == DType::kFloat16 || dtype == DType::kBFloat16; }

double ulp(double x, DType dtype) {
  int digits = 53, least = -1022;
  if (dtype == DType::kFloat32) digits = 24, least = -126;
  if (dtype == DType::kBFloat16) digits = 8, least = -126;
  if (dtype == DType::kFloat16) digits = 11, least = -14;
  int exponent = least + 1;
  if (std::isfinite(x) && x != 0) std::frexp(x, &exponent);
  return std::ldexp(1.0, std::max(exponent - 1, least) - (digits - 1));
}

}  // namespace transom::certify
