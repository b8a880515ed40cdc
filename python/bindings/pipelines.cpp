// SPDX-License-Identifier: Apache-2.0
#include "transom/pipeline.h"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <variant>

#include "base/json/json.h"
#include "bindings.h"
#include "inputs/images/write_png.h"
#include "interrupts.h"
#include "work/pipelines/image_text/tagged_fields.h"
#include "work/pipelines/json/task_json.h"
#include "work/pipelines/task_of_model.h"

namespace transom::python {
namespace {

// What JSON does not say well: a picture as a PNG file, numbers and sounds as a tensor. In the JSON stands
// {"__held__": its place in the list}, which the package puts in for it.
using Held = std::variant<std::string, Tensor>;

struct HeldMedia {
  std::vector<Held> held;
  Json keep(Held value) {
    held.push_back(std::move(value));
    return Json{{"__held__", held.size() - 1}};
  }
  MediaForm form(const TaskRecord& task) {
    MediaForm form = media_as_text();
    form.picture = [this](const Picture& picture) { return keep(encode_png(picture)); };
    form.sound = [this](const Waveform& sound) {
      const auto moments = static_cast<int64_t>(sound.samples.size()) / sound.channels;
      return keep(Tensor::from(sound.samples, sound.channels == 1 ? Shape{moments} : Shape{moments, sound.channels}));
    };
    // Features are lists, as in Transformers.
    if (task.result != ResultKind::kVectors)
      form.numbers = [this](const FeatureArray& array) { return keep(Tensor::from(array.values, array.shape)); };
    return form;
  }
};

// Inputs and results are JSON texts, which Python reads and writes fast.
struct TaskPipeline {
  std::shared_ptr<const Pipeline> task;

  nb::tuple run(const std::string& inputs, const std::string& parameters) const {
    HeldMedia media;
    const std::string result = compute([&] {
      return dump_json(answer_json(*task, parse_json(inputs, "the inputs"), parse_json(parameters, "the parameters"),
                                   media.form(task->record())));
    });
    nb::list held;
    for (const Held& each : media.held) {
      if (const std::string* png = std::get_if<std::string>(&each)) held.append(nb::bytes(png->data(), png->size()));
      else held.append(nb::cast(std::get<Tensor>(each)));
    }
    return nb::make_tuple(result, held);
  }
};

std::string input_kind(const std::string& task) {
  const TaskRecord& record = need_task(task);
  switch (record.input) {
    case InputKind::kText:
      return asks_about_pictures(record) ? "question about pictures" : "text";
    case InputKind::kQuestion:
      return "question";
    case InputKind::kSentences:
      return "sentences";
    case InputKind::kImage:
      return "image";
    case InputKind::kAudio:
      return "audio";
    case InputKind::kVideo:
      return "video";
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
  module.def(
      "fields_of_tags",
      [](const Tokenizer& tokenizer, const std::string& text) { return dump_json(fields_of_tags(text, tokenizer)); },
      "tokenizer"_a, "text"_a);
  module.def("pipeline_tasks", [] { return pipeline_tasks(); });
  module.def("pipeline_input", input_kind);
  module.def("task_of_model", [](const std::string& directory) { return task_of_model(directory); });
  module.def("pipeline_parameters", [](const std::string& task) { return pipeline_parameters(task); });
}

}  // namespace transom::python
