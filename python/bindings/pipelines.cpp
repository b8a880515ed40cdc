// SPDX-License-Identifier: Apache-2.0
#include "transom/pipeline.h"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "base/json/json.h"
#include "bindings.h"
#include "interrupts.h"
#include "pipelines/pipeline.h"

namespace transom::python {
namespace {

// Inputs and results are JSON texts, which Python reads and writes fast.
struct TaskPipeline {
  std::shared_ptr<const Pipeline> task;

  std::string run(const std::string& inputs, const std::string& parameters) const {
    return compute([&] {
      const Json given = parse_json(inputs, "the inputs"), keywords = parse_json(parameters, "the parameters");
      if (!given.is_array() || task->is_one_input(given)) return dump_json(run_pipeline(*task, given, keywords));
      return dump_json(task->joined(run_pipeline(*task, given.get<std::vector<Json>>(), keywords)));
    });
  }
};

std::string input_kind(const std::string& task) {
  switch (input_kind_of_task(task)) {
    case InputKind::kText:
      return "text";
    case InputKind::kQuestion:
      return "question";
    case InputKind::kSentences:
      return "sentences";
    case InputKind::kImage:
      return "image";
    case InputKind::kAudio:
      return "audio";
  }
  return "text";
}

}  // namespace

void bind_pipelines(nb::module_& module) {
  using namespace nb::literals;
  nb::class_<TaskPipeline>(module, "Pipeline").def("run", &TaskPipeline::run, "inputs"_a, "parameters"_a);
  module.def(
      "pipeline",
      [](const std::string& task, const std::string& directory, const std::string& dtype,
         const std::string& quantization) {
        return compute([&] {
          return TaskPipeline{make_pipeline(task, directory, {}, {.dtype = dtype, .quantization = quantization})};
        });
      },
      "task"_a, "directory"_a, "dtype"_a, "quantization"_a);
  module.def("pipeline_tasks", [] { return pipeline_tasks(); });
  module.def("pipeline_input", input_kind);
  module.def("pipeline_parameters", [](const std::string& task) { return pipeline_parameters(task); });
}

}  // namespace transom::python
