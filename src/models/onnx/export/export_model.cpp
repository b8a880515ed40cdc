// SPDX-License-Identifier: Apache-2.0
#include "models/onnx/export/export_model.h"

#include <algorithm>

#include "base/error.h"
#include "base/files/directories.h"
#include "graph/ir/node.h"
#include "graph/passes/passes.h"
#include "models/onnx/export/file_pass.h"
#include "models/onnx/export/lowering.h"
#include "models/onnx/export/merge_decoders.h"
#include "models/onnx/export/task_inputs.h"
#include "runtime/tensor/mode_scope.h"
#include "transom/ops.h"

namespace transom::onnx {
namespace {

struct Trace {
  Graph graph;
  std::vector<Tensor> leaves;  // what its inputs stand for
  std::vector<std::string> outputs;
};

NamedTensors placeholders(const ExportedFile& file, size_t signature) {
  NamedTensors inputs;
  for (const FileInput& input : file.inputs) {
    Shape shape;
    for (const InputAxis& axis : input.axes) shape.push_back(axis.extent[signature]);
    inputs.set(input.name, make_input({input.dtype, shape}));
  }
  return inputs;
}

class FileExporter {
 public:
  FileExporter(const transom::Model& model, const ExportedFile& file, const ExportOptions& options)
      : model_(model), file_(file), options_(options), builder_(options.opset) {
    for (const auto* group : {&model.parameters(), &model.frozen(), &model.buffers()})
      for (const auto& parameter : *group) {
        if (parameter->packed) fail("export: {} is packed; expected weights of float32 or float16", parameter->name);
        names_.emplace(parameter->value, parameter->name);
      }
  }

  WrittenModel operator()() {
    std::vector<Graph> graphs;
    std::vector<std::vector<Tensor>> leaves;
    std::vector<std::string> outputs;
    for (size_t s = 0; s < kSignatures; ++s) {
      Trace trace = trace_at(s);
      if (s > 0 && trace.outputs != outputs) fail("export: the model gives other outputs for other extents");
      outputs = std::move(trace.outputs);
      graphs.push_back(std::move(trace.graph));
      leaves.push_back(std::move(trace.leaves));
    }
    const Traces traces(std::move(graphs), std::move(leaves));
    emit(traces);
    for (size_t i = 0; i < outputs.size(); ++i) {
      const Tensor& tensor = traces.graph().outputs[i];
      const Operand& operand = operands_.at(tensor);
      builder_.set_scope("");
      builder_.output(outputs[i], builder_.expand(operand.value, operand.shape), tensor.dtype());
    }
    return builder_.finish(model_.architecture());
  }

 private:
  Trace trace_at(size_t signature) const {
    const NoGradient inference;
    const ModeScope lazy(Mode::kLazy);
    const NamedTensors arguments = placeholders(file_, signature);
    Trace trace;
    std::vector<Tensor> results, inputs;
    for (const auto& [name, tensor] : run_file(model_, file_, arguments).items()) {
      trace.outputs.push_back(name);
      results.push_back(tensor);
    }
    if (results.empty()) fail("export: {} gives no output that a file could have", model_.architecture());
    for (const FileInput& input : file_.inputs) inputs.push_back(arguments.at(input.name));
    const Graph graph = make_graph(results, inputs);
    trace.leaves = graph.inputs;
    const auto supports = [&](const transom::Node& node) { return stays_whole(node, options_.opset); };
    // Not simplified: constants that are equal by accident at one signature would be one there.
    trace.graph = lower_composites(isolate(graph), supports);
    return trace;
  }

  void emit(const Traces& traces) {
    for (size_t i = 0; i < traces.graph().inputs.size(); ++i) {
      const Tensor& tensor = traces.graph().inputs[i];
      const ValueType type{tensor.dtype(), traces.shape_of(tensor)};
      if (i < file_.inputs.size()) {
        std::vector<std::string> axes;
        for (const InputAxis& axis : file_.inputs[i].axes) axes.push_back(axis.name);
        const FileInput& input = file_.inputs[i];
        operands_[tensor] = {
            input.optional ? builder_.optional_input(input.name, type, axes) : builder_.input(input.name, type, axes),
            type.shape};
        continue;
      }
      const Tensor leaf = traces.constant_input(i);
      const auto name = names_.find(leaf);
      const auto bytes = std::make_shared<const std::vector<std::byte>>(leaf.to_bytes());
      const ValueId value = builder_.initializer(name == names_.end() ? fmt::format("/tables/{}", i) : name->second,
                                                 {leaf.dtype(), leaf.shape(), *bytes, bytes});
      operands_[tensor] = {value, type.shape};
    }
    for (size_t i = 0; i < traces.graph().nodes.size(); ++i) {
      const std::shared_ptr<Node>& node = traces.graph().nodes[i];
      const LoweringFunction lower = find_lowering(node->operation->name);
      if (!lower)
        fail("export: {}{} has no form in ONNX (opset {})", scope_prefix_of(*node), node->operation->name,
             options_.opset);
      builder_.set_scope(*node->scope);
      const std::vector<Operand> results = lower(Lowering(traces, builder_, operands_, i));
      for (size_t k = 0; k < results.size(); ++k) operands_[Tensor(node, static_cast<int>(k))] = results[k];
    }
  }

  const transom::Model& model_;
  const ExportedFile& file_;
  const ExportOptions& options_;
  GraphBuilder builder_;
  TensorMap<std::string> names_;
  TensorMap<Operand> operands_;
};

}  // namespace

std::vector<fs::path> export_model(const transom::Model& model, const fs::path& directory,
                                   const ExportOptions& options) {
  constexpr int64_t kLeast = 18, kMost = 23;
  if (options.opset < kLeast || options.opset > kMost)
    fail(ErrorKind::kUsage, "opset: expected {} to {}, found {}", kLeast, kMost, options.opset);
  if (model.computing().int8) fail(ErrorKind::kUsage, "export: linear layers in 8-bit integers are not offered");
  const std::vector<ExportedFile> files = exported_files(model, options.with_past);
  make_directories(directory);
  std::vector<fs::path> written;
  const auto write = [&](const std::string& name, const WrittenModel& made) {
    written.push_back(directory / name);
    write_model(written.back(), made, options.external_data ? 0 : kMaximumInlineBytes);
  };
  std::optional<WrittenModel> decoder;
  for (const ExportedFile& file : files) {
    WrittenModel made = FileExporter(model, file, options)();
    if (options.edit) made = options.edit(std::move(made));
    write(file.name, made);
    if (options.check) options.check(check_file(model, file, written.back()));
    if (file.part == FilePart::kDecoderWithPast) write("decoder_model_merged.onnx", merge_decoders(*decoder, made));
    if (file.part == FilePart::kDecoder) decoder = std::move(made);
  }
  return written;
}

}  // namespace transom::onnx
