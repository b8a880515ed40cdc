// SPDX-License-Identifier: Apache-2.0
// transom export: a model as files of ONNX, for other runtimes.
#include "base/directories.h"
#include "base/error.h"
#include "cli/command.h"
#include "cli/companion_files.h"
#include "io/config.h"
#include "onnx/export/export_model.h"
#include "transom/model.h"

namespace transom {
namespace {

struct Options {
  std::string model, output, format = "onnx", task, dtype = "float32";
  int64_t opset = 23;
  bool external_data = false, with_past = false;
  ModelOptions source;
};

// optimum's ending of tasks whose files go on from keys and values.
constexpr std::string_view kWithPast = "-with-past";

// The pipeline's name for optimum's.
std::string task_of(std::string name) {
  if (name.ends_with(kWithPast)) name.resize(name.size() - kWithPast.size());
  return name == "auto" ? "" : name;
}

int export_to(const Options& options) {
  if (options.format != "onnx") fail(ErrorKind::kUsage, "--format: expected onnx, found {}", quoted(options.format));
  const fs::path directory = resolve_model(options.model, options.source.hub());
  const std::unique_ptr<Model> model =
      Model::from_pretrained(directory.string(), {.task = task_of(options.task), .dtype = options.dtype});
  onnx::export_model(*model, options.output,
                     {.opset = options.opset,
                      .with_past = options.with_past || options.task.ends_with(kWithPast),
                      .external_data = options.external_data});
  write_file(fs::path(options.output) / "config.json", model->config().dump());
  copy_companion_files(directory, options.output);
  return 0;
}

}  // namespace

Command export_command() {
  static Options options;
  Command command{.name = "export",
                  .help = "Write a model as ONNX, with the names and dynamic axes of optimum-onnx",
                  .examples =
                      "  transom export MODEL DIRECTORY --format onnx\n"
                      "  transom export MODEL DIRECTORY --format onnx --task text-classification --opset 18"};
  command.options = {
      {"model", &options.model, kModelHelp, true},
      {"output", &options.output, "directory for the files", true},
      {"--format", &options.format, "onnx"},
      {"--task", &options.task, "pipeline that chooses the head (default: the architecture of config.json)"},
      {"--opset", &options.opset, "version of ONNX's operators, 18 to 23"},
      {"--dtype", &options.dtype, kDtypeHelp},
      {"--with_past", &options.with_past,
       "of decoders: past keys and values are inputs, as with optimum's text-generation-with-past"},
      {"--external_data", &options.external_data, "weights in a file of their own, as above 1.5 GiB"}};
  options.source.add_to(command);
  command.run = [] { return export_to(options); };
  return command;
}

}  // namespace transom
