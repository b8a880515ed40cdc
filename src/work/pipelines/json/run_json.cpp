// SPDX-License-Identifier: Apache-2.0
// Pipelines that are asked in JSON.
#include "base/json/json.h"
#include "work/pipelines/json/task_json.h"

namespace transom {
namespace {

std::vector<Json> answers(const Pipeline& pipeline, const std::vector<TaskInput>& inputs, const TaskOptions& options,
                          const std::vector<CallForm>& forms, const MediaForm& media) {
  const std::vector<TaskResult> results = pipeline.run(inputs, options);
  std::vector<Json> list;
  for (size_t i = 0; i < results.size(); ++i)
    list.push_back(json_of_result(pipeline.record(), inputs[i], options, results[i], forms[i], media));
  return list;
}

TaskOptions checked_options(const Pipeline& pipeline, const Json& parameters) {
  const TaskParameters known = pipeline.parameters();
  TaskOptions options = options_of_json(known, parameters);
  check_options(known, options);
  return options;
}

}  // namespace

Json run_pipeline(const Pipeline& pipeline, const Json& input, const Json& parameters, const MediaForm& media) {
  const TaskOptions options = checked_options(pipeline, parameters);
  return answers(pipeline, {input_of_json(pipeline.record(), input, options)}, options, {form_of_input(input, true)},
                 media)[0];
}

std::vector<Json> run_pipeline(const Pipeline& pipeline, const std::vector<Json>& inputs, const Json& parameters,
                               const MediaForm& media) {
  const TaskOptions options = checked_options(pipeline, parameters);
  // A list of strings is one text then.
  if (flag_or_default(options, "is_split_into_words", false) && !inputs.empty() && inputs[0].is_string())
    return answers(pipeline, {input_of_json(pipeline.record(), Json(inputs), options)}, options, {{.alone = false}},
                   media);
  std::vector<TaskInput> given;
  std::vector<CallForm> forms;
  for (const Json& input : inputs) {
    given.push_back(input_of_json(pipeline.record(), input, options));
    forms.push_back(form_of_input(input, false));
  }
  return answers(pipeline, given, options, forms, media);
}

Json answer_json(const Pipeline& pipeline, const Json& inputs, const Json& parameters, const MediaForm& media) {
  if (!inputs.is_array() || is_one_input(pipeline.record(), inputs))
    return run_pipeline(pipeline, inputs, parameters, media);
  return joined_results(pipeline.record(),
                        run_pipeline(pipeline, std::vector<Json>(inputs.begin(), inputs.end()), parameters, media));
}

}  // namespace transom
