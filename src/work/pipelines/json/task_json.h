// SPDX-License-Identifier: Apache-2.0
// Tasks as JSON: inputs, options and results in the structure that Transformers' pipeline() reads and returns, which is
// that of Hugging Face's inference endpoints. The edges (command line, server, Python, files of requests) stand here;
// the tasks know nothing of it.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "base/json/json_fwd.h"
#include "work/pipelines/pipeline.h"

namespace transom {

// An object of keyword arguments. Values keep their JSON where the parameter does not say otherwise.
TaskOptions options_of_json(const TaskParameters& parameters, const Json& json);
Json json_of_options(const TaskOptions& options);

// A string, or an object with the fields of the task; pictures and sounds also as bytes (Json's binary). The options
// say where a list of words is one text.
TaskInput input_of_json(const TaskRecord& task, const Json& json, const TaskOptions& options);
// Of what can be said as JSON: pictures and sounds by their paths, or their bytes in base64.
Json json_of_input(const TaskRecord& task, const TaskInput& input);
// Whether a list is one input (the messages of a chat) rather than several.
bool is_one_input(const TaskRecord& task, const Json& list);
CallForm form_of_input(const Json& json, bool alone);

// How pictures, sounds and arrays of numbers stand in the JSON of a result.
struct MediaForm {
  std::function<Json(const Picture&)> picture;
  std::function<Json(const Waveform&)> sound;
  std::function<Json(const FeatureArray&)> numbers;
};
// PNG and WAV in base64, nested lists: what JSON alone can say.
const MediaForm& media_as_text();

Json json_of_result(const TaskRecord& task, const TaskInput& input, const TaskOptions& options,
                    const TaskResult& result, const CallForm& form, const MediaForm& media = media_as_text());
// What a result that was written so says, by any server that speaks this form.
TaskResult result_of_json(const TaskRecord& task, const Json& json);
// What pipeline() returns for a list of inputs: the list of their results, or what a task makes of it.
Json joined_results(const TaskRecord& task, std::vector<Json> results);

// One input; or several, one result each.
Json run_pipeline(const Pipeline& pipeline, const Json& input, const Json& parameters,
                  const MediaForm& media = media_as_text());
std::vector<Json> run_pipeline(const Pipeline& pipeline, const std::vector<Json>& inputs, const Json& parameters,
                               const MediaForm& media = media_as_text());
// Whichever of both the JSON is, as pipeline() returns it.
Json answer_json(const Pipeline& pipeline, const Json& inputs, const Json& parameters,
                 const MediaForm& media = media_as_text());

}  // namespace transom
