// SPDX-License-Identifier: Apache-2.0
#include "apps/cli/commands/models/quantize_onnx.h"

#include <cstdio>

#include "apps/cli/options/calibration_inputs.h"
#include "apps/cli/options/companion_files.h"
#include "base/error.h"
#include "base/files/directories.h"
#include "base/files/paths.h"
#include "models/onnx/model/graph_inputs.h"
#include "models/onnx/proto/read_model.h"
#include "models/onnx/quantization/model_to_write.h"

namespace transom {
namespace {

std::string list_of(const std::map<std::string, int64_t>& counts) {
  std::string text;
  for (const auto& [operation, count] : counts)
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ", count, operation);
  return text.empty() ? "none" : text;
}

// By the names and types of the graph; what it does not take is left out.
std::vector<onnx::NamedValues> graph_samples(const onnx::ImportedGraph& graph, const std::vector<NamedTensors>& inputs,
                                             const std::string& where) {
  std::vector<onnx::NamedValues> samples;
  for (const NamedTensors& each : inputs) {
    onnx::NamedValues values;
    for (const onnx::ValueInfo* input : graph.required_inputs()) {
      const Tensor tensor = each.find(input->name);
      if (!tensor.defined()) fail("{}: gives no {}, which the graph takes", where, quoted(input->name));
      values.emplace_back(input->name, onnx::converted(tensor, *input));
    }
    samples.push_back(std::move(values));
  }
  return samples;
}

}  // namespace

void print_quantization(const onnx::QuantizationReport& report, const onnx::QuantizationScheme& scheme) {
  std::puts(fmt::format("{}: in integers: {}", scheme.name, list_of(report.integer_nodes)).c_str());
  std::puts(fmt::format("{}: in float: {}", scheme.name, list_of(report.float_nodes)).c_str());
  std::puts(fmt::format("{}: against float32 on {} samples: signal to noise {:.1f} dB{}", scheme.name, report.samples,
                        report.signal_to_noise,
                        report.same_first ? fmt::format(", same first class {:.1f} %", 100 * *report.same_first) : "")
                .c_str());
}

void quantize_onnx(const fs::path& model, const fs::path& output, const std::string& format,
                   const std::string& calibration_file) {
  const onnx::QuantizationScheme scheme = onnx::quantization_scheme(format);
  if (calibration_file.empty())
    fail(ErrorKind::kUsage,
         "--format {} needs --calibration_file: pictures, texts or tensors that the scales are found with",
         scheme.name);
  const NoGradient inference;
  const auto graph = onnx::ImportedGraph::open(model);
  const fs::path directory = model.has_parent_path() ? model.parent_path() : fs::path(".");
  const bool to_file = output.extension() == ".onnx";
  const fs::path file = to_file ? output : output / "model.onnx";
  if (is_same_file(file, model))
    fail(ErrorKind::kUsage, "{} is the model itself; expected another place", file.string());
  onnx::WrittenModel written = onnx::model_to_write(graph->model());
  const std::vector<onnx::NamedValues> samples =
      graph_samples(*graph, calibration_inputs(calibration_file, directory), calibration_file);
  if (!samples.empty())
    graph->run(samples[0], kAsGiven);  // what breaks a rule of an operator is said before anything is changed
  onnx::QuantizationReport report;
  written = onnx::quantize_graph(std::move(written), scheme, samples, report);
  if (!to_file) {
    make_directories(output);
    if (path_exists(directory / "config.json"))
      write_file(output / "config.json", read_file(directory / "config.json"));
    copy_companion_files(directory, output);
  }
  onnx::write_model(file, written);
  print_quantization(report, scheme);
}

}  // namespace transom
