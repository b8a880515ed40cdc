// SPDX-License-Identifier: Apache-2.0
#include "apps/cli/commands/forward_onnx.h"

#include "models/onnx/import/run/imported_graph.h"
#include "models/onnx/import/run/named_values.h"

namespace transom {

void forward_onnx(const fs::path& model, const std::string& inputs, const std::string& outputs) {
  const NoGradient inference;
  const auto graph = onnx::ImportedGraph::open(model);
  const onnx::NamedValues results = graph->run(onnx::read_values(inputs), kAsGiven);
  std::vector<Tensor> tensors;
  for (const auto& [name, value] : results) tensors.push_back(value.tensor);
  eval(tensors);
  onnx::write_values(outputs, results);
}

}  // namespace transom
