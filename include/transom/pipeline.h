// SPDX-License-Identifier: Apache-2.0
// Pipelines: from what a user has to what a user wants, with the names and results of Transformers' pipeline().
#pragma once

#include <memory>
#include <string>
#include <vector>

namespace transom {

class Pipeline;  // pipelines/pipeline.h

// A cheap handle to a model that is ready to answer. Any number of threads may ask it at once, or copies of it.
class LoadedPipeline {
 public:
  explicit LoadedPipeline(std::shared_ptr<const Pipeline> task) : task_(std::move(task)) {}

  // The result for one text, as the JSON text of what Transformers' pipeline() returns:
  //   [{"label":"POSITIVE","score":0.9998}]
  // `parameters` are its keyword arguments, a JSON object: {"top_k": 3}. Unknown ones are refused by name.
  std::string operator()(const std::string& text, const std::string& parameters = "{}") const;
  // One result a text, computed in batches where the task can.
  std::vector<std::string> operator()(const std::vector<std::string>& texts,
                                      const std::string& parameters = "{}") const;
  // An input that is no text, as JSON: {"question": ..., "context": ...}.
  std::string run_json(const std::string& input, const std::string& parameters = "{}") const;

 private:
  std::shared_ptr<const Pipeline> task_;
};

// What a task takes, as JSON: [{"name", "type", "help", "default", "choices", "required", "group"}], where a type is
// flag, flag_or_word, integer, number, numbers, text, texts, json or generation (an option of generate()). `task` as
// for pipeline().
std::string pipeline_parameters(const std::string& task);

// The pipeline of a task ("text-classification", "fill-mask" ...) on a model.
LoadedPipeline pipeline(const std::string& task, const std::string& model);

}  // namespace transom
