// SPDX-License-Identifier: Apache-2.0
#include "base/json.h"
#include "pipelines/pipeline.h"
#include "transom/pipeline.h"

namespace transom {

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
