// SPDX-License-Identifier: Apache-2.0
#include "work/pipelines/onnx/graph_model.h"

#include "base/error.h"
#include "models/onnx/model/graph_inputs.h"
#include "transom/gradients.h"

namespace transom {

bool GraphModel::is_of(const fs::path& path) { return !onnx::find_onnx_file(path).empty(); }

GraphModel GraphModel::load(const fs::path& path, const LoadOptions& options) {
  const fs::path file = onnx::find_onnx_file(path);
  if (file.empty()) fail("{}: expected an ONNX file, or a directory with one", path.string());
  onnx::check_load_options(options, file);
  return {onnx::ImportedGraph::open(file), onnx::config_beside(file)};
}

std::string GraphModel::kind() const { return config_.get_string("model_type", ""); }

const onnx::ValueInfo& GraphModel::only_input() const {
  const std::vector<const onnx::ValueInfo*> inputs = graph_->required_inputs();
  if (inputs.size() != 1) fail("{}: expected a graph with one input, found {}", where(), inputs.size());
  return *inputs[0];
}

int64_t GraphModel::extent(const onnx::ValueInfo& value, size_t axis) {
  return value.shape && axis < value.shape->size() ? (*value.shape)[axis].value : -1;
}

std::vector<FeatureArray> GraphModel::run(const std::vector<std::pair<std::string, Tensor>>& inputs) const {
  const NoGradient inference;
  onnx::NamedValues values;
  for (const auto& [name, tensor] : inputs) {
    const onnx::ValueInfo* input = graph_->find_input(name);
    if (!input) fail("{}: the graph has no input {}", where(), quoted(name));
    values.emplace_back(name, onnx::converted(tensor, *input));
  }
  std::vector<FeatureArray> outputs;
  for (const auto& [name, value] : graph_->run(values, Computing{})) {
    if (!value.is_tensor()) fail("{}: output {}: expected a tensor, found a sequence", where(), quoted(name));
    outputs.push_back({value.tensor.shape(), value.tensor.to_vector<float>()});
  }
  return outputs;
}

}  // namespace transom
