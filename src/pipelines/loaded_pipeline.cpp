// SPDX-License-Identifier: Apache-2.0
#include "base/json.h"
#include "pipelines/pipeline.h"
#include "transom/pipeline.h"

namespace transom {

std::string pipeline_parameters(const std::string& task) {
  constexpr const char* kTypes[] = {"flag", "flag_or_word", "integer", "number",    "numbers",
                                    "text", "texts",        "json",    "generation"};
  Json list = Json::array();
  for (const TaskParameter& parameter : parameters_of_task(task)) {
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

LoadedPipeline pipeline(const std::string& task, const std::string& model) {
  return LoadedPipeline(make_pipeline(task, model));
}

std::string LoadedPipeline::operator()(const std::string& text, const std::string& parameters) const {
  return dump_json(run_pipeline(*task_, Json(text), parse_json(parameters, "parameters")));
}

std::vector<std::string> LoadedPipeline::operator()(const std::vector<std::string>& texts,
                                                    const std::string& parameters) const {
  std::vector<std::string> results;
  for (const Json& result :
       run_pipeline(*task_, std::vector<Json>(texts.begin(), texts.end()), parse_json(parameters, "parameters")))
    results.push_back(dump_json(result));
  return results;
}

std::string LoadedPipeline::run_json(const std::string& input, const std::string& parameters) const {
  return dump_json(run_pipeline(*task_, parse_json(input, "input"), parse_json(parameters, "parameters")));
}

}  // namespace transom
