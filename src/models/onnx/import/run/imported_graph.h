// SPDX-License-Identifier: Apache-2.0
// The graph of an ONNX file as a function of named values.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "base/files/files.h"
#include "models/onnx/import/run/graph_run.h"
#include "models/onnx/import/run/shared_constants.h"
#include "models/onnx/import/run/value.h"
#include "models/onnx/proto/model.h"

namespace transom::onnx {

using NamedValues = std::vector<std::pair<std::string, Value>>;

// The `.onnx` file that a path names: the file itself, or of a directory without checkpoint weights its model.onnx or
// its only .onnx file (also below onnx/). Empty where the path names none.
fs::path find_onnx_file(const fs::path& path);
// Whether the directory holds a checkpoint of Transformers, which goes before ONNX files.
bool holds_weights(const fs::path& directory);

// Any number of threads may call run() at once.
class ImportedGraph {
 public:
  // Reads the file, and refuses one that asks for an operator that is not known. Errors are one line. `shared`: of the
  // files of one model, for as long as this is built.
  static std::shared_ptr<const ImportedGraph> open(const fs::path& file, SharedConstants* shared = nullptr);
  explicit ImportedGraph(Model model, SharedConstants* shared = nullptr);
  ~ImportedGraph();

  const Model& model() const { return model_; }
  // Inputs that a caller must give; initializers of the same name are only defaults.
  std::vector<const ValueInfo*> required_inputs() const;
  const ValueInfo* find_input(const std::string& name) const;

  // The outputs of the graph in its order, for inputs by its names, checked against the types and shapes that the graph
  // declares. A signature (names, types, shapes, `computing`) is traced once and run as a program from then on; a graph
  // that needs the values of its inputs for its shape or its flow is computed step by step instead. Values are lazy in
  // neither case of the modes compile and graph.
  NamedValues run(const NamedValues& inputs, const Computing& computing TRANSOM_DEFAULT({})) const;

 private:
  struct Pass;
  void check_operators(const std::vector<Node>& nodes, const std::map<std::string, int64_t>& opsets) const;
  void check_inputs(const NamedValues& inputs) const;
  void hold_constants(const Graph& graph, SharedConstants* shared);
  NamedValues interpret(const NamedValues& inputs, const Computing& computing) const;
  NamedValues within_trace(const NamedValues& inputs, const Computing& computing) const;
  std::shared_ptr<Pass> pass_for(const std::string& signature) const;

  Model model_;
  GraphRun::Constants constants_;
  struct Passes;
  std::unique_ptr<Passes> passes_;
};

}  // namespace transom::onnx
