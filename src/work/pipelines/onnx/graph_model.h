// SPDX-License-Identifier: Apache-2.0
// The ONNX graph of a task whose file says nothing of Transformers' names: what stands around it is the task's.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/files/files.h"
#include "models/onnx/import/run/imported_graph.h"
#include "transom/config.h"
#include "transom/model.h"
#include "transom/tasks.h"

namespace transom {

class GraphModel {
 public:
  // The file, or the only one of a directory. Refuses precisions, which a graph has of its own.
  static GraphModel load(const fs::path& path, const LoadOptions& options);
  // Whether a path names an ONNX file, or a directory with one and without another checkpoint.
  static bool is_of(const fs::path& path);

  const onnx::Graph& graph() const { return graph_->model().graph; }
  const onnx::Model& file() const { return graph_->model(); }
  const std::string& where() const { return graph_->model().where; }
  // config.json beside the file, or nothing.
  const Config& config() const { return config_; }
  // What config.json calls the kind of graph: model_type; empty where it does not.
  std::string kind() const;

  // The only input that a caller must give; refuses a graph with several.
  const onnx::ValueInfo& only_input() const;
  // The declared extent of an axis; -1 where it is open.
  static int64_t extent(const onnx::ValueInfo& value, size_t axis);

  // The outputs as numbers, for values by the names of inputs; each becomes what its input is of.
  std::vector<FeatureArray> run(const std::vector<std::pair<std::string, Tensor>>& inputs) const;

 private:
  GraphModel(std::shared_ptr<const onnx::ImportedGraph> graph, Config config)
      : graph_(std::move(graph)), config_(std::move(config)) {}
  std::shared_ptr<const onnx::ImportedGraph> graph_;
  Config config_;
};

}  // namespace transom
