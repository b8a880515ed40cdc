// SPDX-License-Identifier: Apache-2.0
#include "work/pipelines/pipeline.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "files/hub/resolve.h"

namespace transom {

std::unique_ptr<Pipeline> make_pipeline(const std::string& name, const std::string& model, const HubOptions& hub,
                                        LoadOptions options) {
  const TaskRecord& task = need_task(name);
  options.task = task.head.empty() ? task.name : task.head;
  std::unique_ptr<Pipeline> pipeline = task.load(resolve_model(model, hub), options, canonical_task(name));
  pipeline->set_record(task);
  return pipeline;
}

std::vector<TaskResult> Pipeline::run_each(const std::vector<TaskInput>& /*inputs*/,
                                           const std::vector<TaskOptions>& /*options*/) const {
  fail(ErrorKind::kInternal, "{} computes inputs of equal options together", record().name);
}

std::vector<TaskResult> run_pipeline(const Pipeline& pipeline, const std::vector<TaskInput>& inputs,
                                     const TaskOptions& options) {
  check_options(pipeline.parameters(), options);
  return pipeline.run(inputs, options);
}

std::string_view name_of(const TaskInput& input) {
  constexpr std::string_view kNames[] = {"a text",    "a list of words", "a question with a context",
                                         "sentences", "a picture",       "a sound",
                                         "a chat",    "a video"};
  static_assert(std::size(kNames) == std::variant_size_v<TaskInput>);
  return kNames[input.index()];
}

namespace {

template <typename T>
const T& held_input(const TaskInput& input, const char* expected) {
  if (const T* found = std::get_if<T>(&input)) return *found;
  fail("expected {}, found {}", expected, name_of(input));
}

}  // namespace

const TextInput& text_input(const TaskInput& input) { return held_input<TextInput>(input, "a text"); }
const ImageInput& image_input(const TaskInput& input) { return held_input<ImageInput>(input, "a picture"); }
const SoundInput& sound_input(const TaskInput& input) { return held_input<SoundInput>(input, "a sound"); }
const VideoInput& video_input(const TaskInput& input) { return held_input<VideoInput>(input, "a video"); }

std::vector<std::string> candidate_labels(const std::vector<std::string>& of_input, const TaskOptions& options) {
  std::vector<std::string> labels = of_input;
  if (const TaskOptions::Value* given = options.find("candidate_labels")) {
    labels.clear();
    if (const std::string* words = std::get_if<std::string>(given)) labels = words_between_commas(*words);
    else if (const auto* list = std::get_if<std::vector<std::string>>(given)) labels = *list;
  }
  if (labels.empty()) fail("candidate_labels: expected a list of labels");
  return labels;
}

std::vector<double> softmax_of(const std::vector<float>& logits) {
  const double highest = *std::max_element(logits.begin(), logits.end());
  std::vector<double> result;
  double total = 0;
  for (const float x : logits) total += result.emplace_back(std::exp(x - highest));
  for (double& x : result) x /= total;
  return result;
}

}  // namespace transom
