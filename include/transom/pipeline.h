// SPDX-License-Identifier: Apache-2.0
// Pipelines with the names, parameters and results of Transformers' pipeline(): values of tasks.h, or JSON.
// task_pipelines.h has options and results of each task as types of their own.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "transom/hub.h"
#include "transom/precision.h"
#include "transom/tasks.h"

namespace transom {

class Pipeline;  // pipelines/pipeline.h

// How a pipeline is loaded and run.
struct PipelineOptions {
  // "cpu", "cuda:1" ...: makes this the device in use, as set_device does. Empty: the device in use, else the best one.
  // A process computes on one device: another one than that of its tensors is refused.
  std::string device;
  OneOf<ModelDType> dtype = ModelDType::kFloat32;  // of weights and products
  OneOf<Quantization> quantization = Quantization::kNone;
  OneOf<Activations> activations = Activations::kFloat32;
  int64_t batch_size = 1;  // how many inputs of a call go through the model at once, where the task can
  HubOptions hub;          // of models named by their id: revision, token, cache, progress
};

// A cheap handle to a model that is ready to answer. Any number of threads may ask it at once, or copies of it.
class LoadedPipeline {
 public:
  explicit LoadedPipeline(std::shared_ptr<const Pipeline> task, int64_t batch_size = 1)
      : task_(std::move(task)), batch_size_(batch_size) {}

  // The result for an input, or of several one each, in batches where the task can:
  //   const auto depth = std::get<DepthMap>(pipeline("depth-estimation", model).run(ImageInput("cat.png")));
  // Options that the task does not take are refused by name.
  TaskResult run(const TaskInput& input, const TaskOptions& options = {}) const;
  std::vector<TaskResult> run_all(const std::vector<TaskInput>& inputs, const TaskOptions& options = {}) const;

  // The result for one text, as the JSON text of what Transformers' pipeline() returns:
  //   [{"label":"POSITIVE","score":0.9998}]
  // `parameters` are its keyword arguments, a JSON object: {"top_k": 3}. Unknown ones are refused by name. Pictures are
  // PNG files and sounds WAV files, in base64.
  std::string operator()(const std::string& text, const std::string& parameters = "{}") const;
  // One result a text, computed in batches where the task can.
  std::vector<std::string> operator()(const std::vector<std::string>& texts,
                                      const std::string& parameters = "{}") const;
  // An input that is no text, as JSON: {"question": ..., "context": ...}.
  std::string run_json(const std::string& input, const std::string& parameters = "{}") const;

 private:
  std::shared_ptr<const Pipeline> task_;
  int64_t batch_size_;  // of calls whose parameters have none
};

// The names of all tasks.
std::vector<std::string> pipeline_tasks();
// What a task takes, as JSON: [{"name", "type", "help", "default", "choices", "required", "group"}], where a type is
// flag, flag_or_word, integer, number, numbers, text, texts, json or generation (an option of generate()). `task` as
// for pipeline().
std::string pipeline_parameters(const std::string& task);

// The pipeline of a task ("text-classification", "fill-mask" ...) on a model: a directory, or an id of the Hub.
LoadedPipeline pipeline(const std::string& task, const std::string& model, const PipelineOptions& options = {});

}  // namespace transom
