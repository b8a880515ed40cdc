// SPDX-License-Identifier: Apache-2.0
#include "work/pipelines/loaded_pipeline.h"

#include "base/error.h"
#include "base/json/json.h"
#include "runtime/device/device_in_use.h"
#include "work/pipelines/json/task_json.h"

namespace transom {

std::string pipeline_parameters(const std::string& task) {
  constexpr const char* kTypes[] = {"flag", "flag_or_word", "integer", "number",    "numbers",
                                    "text", "texts",        "json",    "generation"};
  Json list = Json::array();
  for (const TaskParameter& parameter : need_task(task).parameters()) {
    if (parameter.help.empty()) continue;  // known, but refused or without a meaning
    Json item{
        {"name", parameter.name}, {"type", kTypes[static_cast<size_t>(parameter.type)]}, {"help", parameter.help}};
    if (!parameter.otherwise.empty()) item["default"] = parameter.otherwise;
    if (!parameter.choices.empty()) item["choices"] = parameter.choices;
    if (parameter.required) item["required"] = true;
    item["group"] = parameter.type == TaskParameter::Type::kGeneration ? "generation" : "task";
    list.push_back(std::move(item));
  }
  return dump_json(list);
}

namespace {

Json with_batch_size(const std::string& parameters, int64_t batch_size) {
  Json json = parse_json(parameters, "parameters");
  if (batch_size != 1 && json.is_object() && !json.contains("batch_size")) json["batch_size"] = batch_size;
  return json;
}

}  // namespace

std::shared_ptr<const Pipeline> load_pipeline(const std::string& task, const std::string& model,
                                              const PipelineOptions& options) {
  if (options.batch_size < 1)
    fail(ErrorKind::kUsage, "PipelineOptions::batch_size: expected a number above 0, found {}", options.batch_size);
  if (!options.device.empty()) use_device(options.device);
  return make_pipeline(
      task, model, options.hub,
      {.dtype = options.dtype, .quantization = options.quantization, .activations = options.activations});
}

LoadedPipeline pipeline(const std::string& task, const std::string& model, const PipelineOptions& options) {
  return LoadedPipeline(load_pipeline(task, model, options), options.batch_size);
}

TaskResult LoadedPipeline::run(const TaskInput& input, const TaskOptions& options) const {
  return std::move(run_all({input}, options).front());
}

std::vector<TaskResult> LoadedPipeline::run_all(const std::vector<TaskInput>& inputs,
                                                const TaskOptions& options) const {
  TaskOptions given = options;
  if (!given.contains("batch_size")) given.set("batch_size", batch_size_);
  return run_pipeline(*task_, inputs, given);
}

std::string LoadedPipeline::operator()(const std::string& text, const std::string& parameters) const {
  return dump_json(run_pipeline(*task_, Json(text), with_batch_size(parameters, batch_size_)));
}

std::vector<std::string> LoadedPipeline::operator()(const std::vector<std::string>& texts,
                                                    const std::string& parameters) const {
  std::vector<std::string> results;
  for (const Json& result :
       run_pipeline(*task_, std::vector<Json>(texts.begin(), texts.end()), with_batch_size(parameters, batch_size_)))
    results.push_back(dump_json(result));
  return results;
}

std::string LoadedPipeline::run_json(const std::string& input, const std::string& parameters) const {
  return dump_json(run_pipeline(*task_, parse_json(input, "input"), with_batch_size(parameters, batch_size_)));
}

}  // namespace transom
