// SPDX-License-Identifier: Apache-2.0
// transom export: a model as files of ONNX, for other runtimes.
#include "apps/cli/command.h"
#include "apps/cli/commands/models/quantize_onnx.h"
#include "apps/cli/options/calibration_inputs.h"
#include "apps/cli/options/companion_files.h"
#include "apps/cli/options/output.h"
#include "base/error.h"
#include "base/files/directories.h"
#include "files/config/config.h"
#include "models/loading/adapters/adaptation.h"
#include "models/loading/weights/missing_weights.h"
#include "models/onnx/export/export_model.h"
#include "transom/model.h"

namespace transom {
namespace {

struct ExportArguments {
  std::string model, output, format = "onnx", task, dtype = "float32";
  std::string quantization = "none", calibration_file, calibration_method;
  int64_t opset = 23;
  bool external_data = false, with_past = false, no_check = false;
  ModelOptions source;
};

// optimum's ending of tasks whose files go on from keys and values.
constexpr std::string_view kWithPast = "-with-past";

// The pipeline's name for optimum's.
std::string task_of(std::string name) {
  if (name.ends_with(kWithPast)) name.resize(name.size() - kWithPast.size());
  return name == "auto" ? "" : name;
}

// The calibration's inputs by the names and types of the graph; what it does not take is left out.
std::vector<onnx::NamedValues> samples_of(const onnx::WrittenModel& graph, const std::vector<NamedTensors>& inputs,
                                          const std::string& where) {
  std::vector<onnx::NamedValues> samples;
  for (const NamedTensors& each : inputs) {
    onnx::NamedValues values;
    for (const onnx::WrittenValue& input : graph.inputs) {
      const Tensor tensor = each.find(input.name);
      if (!tensor.defined()) fail("{}: gives no {}, which the graph takes", where, quoted(input.name));
      values.emplace_back(input.name, onnx::value_of(tensor));
    }
    samples.push_back(std::move(values));
  }
  return samples;
}

// What turns the float graph into one of integers, with scales from the calibration file.
std::function<onnx::WrittenModel(onnx::WrittenModel)> quantizer(const ExportArguments& options,
                                                                const fs::path& directory) {
  if (options.quantization == "none") return {};
  const onnx::QuantizationScheme scheme = onnx::quantization_scheme(options.quantization, options.calibration_method);
  if (options.calibration_file.empty())
    fail(ErrorKind::kUsage,
         "--quantization {} needs --calibration_file: pictures, texts or tensors that the scales are found with",
         scheme.name);
  if (options.with_past || options.task.ends_with(kWithPast))
    fail(ErrorKind::kUsage, "--quantization {} of a graph with past keys and values is not supported", scheme.name);
  const std::vector<NamedTensors> inputs = calibration_inputs(options.calibration_file, directory);
  return [=](onnx::WrittenModel graph) {
    onnx::QuantizationReport report;
    const std::vector<onnx::NamedValues> samples = samples_of(graph, inputs, options.calibration_file);
    graph = onnx::quantize_graph(std::move(graph), scheme, samples, report);
    print_quantization(report, scheme);
    return graph;
  };
}

void print_check(const onnx::ExportCheck& check) {
  std::puts(fmt::format("{}: differs from the model by at most {:.1e} of the largest value ({}, at {}; {} runs)",
                        check.file, check.difference, check.output, check.sizes, check.passes)
                .c_str());
}

int export_to(const ExportArguments& options) {
  if (options.format != "onnx") fail(ErrorKind::kUsage, "--format: expected onnx, found {}", quoted(options.format));
  expect_directory_name(options.output, "export");
  const fs::path directory = resolve_model(options.model, options.source.hub());
  const std::unique_ptr<Model> model =
      load_trained(directory.string(), {.task = task_of(options.task), .dtype = options.dtype});
  expect_merged(*model);
  onnx::ExportOptions how{.opset = options.opset,
                          .with_past = options.with_past || options.task.ends_with(kWithPast),
                          .external_data = options.external_data,
                          .edit = quantizer(options, directory),
                          .check = {}};
  // A quantized graph is another function on purpose; how far off it is, its report says.
  if (!options.no_check && !how.edit) how.check = [](const onnx::ExportCheck& check) { print_check(check); };
  onnx::export_model(*model, options.output, how);
  write_file(fs::path(options.output) / "config.json", model->config().dump());
  copy_companion_files(directory, options.output);
  return 0;
}

}  // namespace

Command export_command() {
  static ExportArguments options;
  Command command{.name = "export",
                  .help = "Write a model as ONNX, with the names and dynamic axes of optimum-onnx",
                  .examples =
                      "  transom export MODEL DIRECTORY --format onnx\n"
                      "  transom export MODEL DIRECTORY --format onnx --task text-classification --opset 18\n"
                      "  transom export MODEL DIRECTORY --opset 18 --quantization xint8 --calibration_file pictures/"};
  command.options = {
      {kModelPlace, &options.model, kModelHelp, true},
      {"output", &options.output, "directory for the files", true},
      {"--format", &options.format, "onnx"},
      {"--task", &options.task, "pipeline that chooses the head (default: the architecture of config.json)"},
      {"--opset", &options.opset, "version of ONNX's operators, 18 to 23"},
      {"--dtype", &options.dtype, kDtypeHelp},
      {"--with_past", &options.with_past,
       "past keys and values are inputs, as with optimum's text-generation-with-past; of encoder-decoders also "
       "decoder_with_past_model.onnx and decoder_model_merged.onnx"},
      {"--no_check", &options.no_check, "do not run the files and compare them with the model"},
      {"--quantization", &options.quantization,
       "none, or a format of AMD's compilers for NPUs: xint8 (scales are powers of two), a8w8, a16w8"},
      {"--calibration_file", &options.calibration_file,
       "with --quantization: a directory of pictures, a file of texts, or tensors (.safetensors)"},
      {"--calibration_method", &options.calibration_method,
       "minmax, percentile or mse (default: mse for xint8, else minmax)"},
      {"--external_data", &options.external_data, "weights in a file of their own, as above 1.5 GiB"}};
  options.source.add_to(command);
  command.run = [] { return export_to(options); };
  return command;
}

}  // namespace transom
