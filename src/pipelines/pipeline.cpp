// SPDX-License-Identifier: Apache-2.0
#include "pipelines/pipeline.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/json/json.h"
#include "hub/resolve.h"
#include "pipelines/text/text_model.h"

namespace transom {
namespace {

struct Task {
  std::string_view name, alias;
  std::unique_ptr<Pipeline> (*make)(const std::string& directory, const LoadOptions& options);
  TaskParameters (*parameters)();
  InputKind input = InputKind::kText;
  std::string_view head = {};  // the task whose head the model needs; empty: that of this name
};

template <std::unique_ptr<Pipeline> (*make)(TextModel model)>
std::unique_ptr<Pipeline> of_text(const std::string& directory, const LoadOptions& options) {
  return make(TextModel::load(directory, options));
}

template <const char* task>
std::unique_ptr<Pipeline> to_text(const std::string& directory, const LoadOptions& options) {
  return make_text_to_text(task, directory, options);
}
constexpr char kText2Text[] = "text2text-generation", kSummarization[] = "summarization",
               kTranslation[] = "translation";

constexpr Task kTasks[] = {
    {"text-classification", "sentiment-analysis", of_text<make_text_classification>, text_classification_parameters},
    {"token-classification", "ner", of_text<make_token_classification>, token_classification_parameters},
    {"question-answering", "", of_text<make_question_answering>, question_answering_parameters, InputKind::kQuestion},
    {"fill-mask", "", of_text<make_fill_mask>, fill_mask_parameters},
    {"feature-extraction", "", make_feature_extraction, feature_extraction_parameters},
    {"sentence-similarity", "", make_sentence_similarity, sentence_similarity_parameters, InputKind::kSentences,
     "feature-extraction"},
    {"zero-shot-classification", "", of_text<make_zero_shot_classification>, zero_shot_classification_parameters},
    {"image-classification", "", make_image_classification, image_classification_parameters, InputKind::kImage},
    {"image-feature-extraction", "", make_image_feature_extraction, image_feature_extraction_parameters,
     InputKind::kImage},
    {"zero-shot-image-classification", "", make_zero_shot_image_classification,
     zero_shot_image_classification_parameters, InputKind::kImage},
    {"audio-classification", "", make_audio_classification, audio_classification_parameters, InputKind::kAudio},
    {"automatic-speech-recognition", "asr", make_automatic_speech_recognition, automatic_speech_recognition_parameters,
     InputKind::kAudio},
    {"text-generation", "", make_text_generation, text_generation_parameters},
    {kText2Text, "", to_text<kText2Text>, text_to_text_parameters},
    {kSummarization, "", to_text<kSummarization>, text_to_text_parameters},
    {kTranslation, "", to_text<kTranslation>, text_to_text_parameters},
};

// translation_en_to_fr is one of the tasks that config.json keeps a prefix for.
const Task* find_task(const std::string& name) {
  const bool of_languages = name.starts_with("translation_") && name.find("_to_") != name.npos;
  for (const Task& task : kTasks)
    if (name == task.name || (!task.alias.empty() && name == task.alias) || (of_languages && task.name == kTranslation))
      return &task;
  return nullptr;
}

const Task& need_task(const std::string& name) {
  if (const Task* task = find_task(name)) return *task;
  fail(ErrorKind::kUsage, "unknown task {}{} Known are: {}", quoted(name), did_you_mean(name, pipeline_tasks()),
       fmt::join(pipeline_tasks(), ", "));
}

}  // namespace

std::vector<std::string> pipeline_tasks() {
  std::vector<std::string> names;
  for (const Task& task : kTasks) names.emplace_back(task.name);
  return names;
}

TaskParameters parameters_of_task(const std::string& task) { return need_task(task).parameters(); }
InputKind input_kind_of_task(const std::string& task) { return need_task(task).input; }
std::string canonical_task(const std::string& task) {
  const Task& known = need_task(task);
  return task == known.alias ? std::string(known.name) : task;
}
bool is_pipeline_task(const std::string& task) { return find_task(task) != nullptr; }

std::unique_ptr<Pipeline> make_pipeline(const std::string& name, const std::string& model, const HubOptions& hub,
                                        LoadOptions options) {
  const Task& task = need_task(name);
  options.task = task.head.empty() ? task.name : task.head;
  if (name.starts_with("translation_")) return make_text_to_text(name, resolve_model(model, hub), options);
  return task.make(resolve_model(model, hub), options);
}

namespace {

void check_parameters(const Pipeline& pipeline, const Json& parameters) {
  if (!parameters.is_object()) fail("parameters: expected an object");
  const TaskParameters known = pipeline.parameters();
  for (const auto& [name, value] : parameters.items()) {
    if (name == "batch_size") continue;
    const auto found = std::find_if(known.begin(), known.end(), [&](const TaskParameter& p) { return p.name == name; });
    if (found == known.end())
      fail("unknown parameter {}{} This task takes: {}", quoted(name), did_you_mean(name, names_of(known)),
           fmt::join(names_of(known), ", "));
    check_parameter(*found, value);
  }
  batch_size_of(parameters);
}

}  // namespace

Json Pipeline::joined(std::vector<Json> results) const { return results; }

std::vector<Json> Pipeline::run_all(const std::vector<Json>& inputs, const Json& parameters) const {
  std::vector<Json> results;
  for (const Json& input : inputs) results.push_back(run(input, parameters));
  return results;
}

Json run_pipeline(const Pipeline& pipeline, const Json& input, const Json& parameters) {
  check_parameters(pipeline, parameters);
  return pipeline.run(input, parameters);
}

std::vector<Json> run_pipeline(const Pipeline& pipeline, const std::vector<Json>& inputs, const Json& parameters) {
  check_parameters(pipeline, parameters);
  return pipeline.run_all(inputs, parameters);
}

std::vector<double> softmax_of(const std::vector<float>& logits) {
  const double highest = *std::max_element(logits.begin(), logits.end());
  std::vector<double> result;
  double total = 0;
  for (const float x : logits) total += result.emplace_back(std::exp(x - highest));
  for (double& x : result) x /= total;
  return result;
}

int64_t batch_size_of(const Json& parameters) {
  const auto found = parameters.find("batch_size");
  if (found == parameters.end() || found->is_null()) return 1;
  const int64_t size = int_parameter(parameters, "batch_size", 1);
  if (size < 1) fail("batch_size: expected a number above 0, found {}", size);
  return std::min(size, int64_t{1} << 30);  // all that there are
}

std::string text_input(const Json& input, const std::string& field) {
  if (input.is_string()) return input.get<std::string>();
  if (input.is_object() && input.contains(field) && input[field].is_string()) return input[field].get<std::string>();
  fail("expected a text, or an object with the string \"{}\"; found {}", field, quoted(dump_json(input)));
}

std::optional<std::span<const std::byte>> bytes_input(const Json& input, const std::string& field) {
  if (input.is_binary()) return std::as_bytes(std::span(input.get_binary()));
  if (input.is_object() && input.contains(field) && input[field].is_binary()) return bytes_input(input[field], field);
  return std::nullopt;
}

int64_t int_parameter(const Json& parameters, const char* name, int64_t otherwise) {
  const auto found = parameters.find(name);
  if (found == parameters.end()) return otherwise;
  if (!found->is_number_integer())
    fail("parameter {}: expected a whole number, found {}", name, quoted(dump_json(*found)));
  return found->get<int64_t>();
}

std::string string_parameter(const Json& parameters, const char* name, const std::string& otherwise) {
  const auto found = parameters.find(name);
  if (found == parameters.end() || found->is_null()) return otherwise;
  if (!found->is_string()) fail("parameter {}: expected a string, found {}", name, quoted(dump_json(*found)));
  return found->get<std::string>();
}

void refuse_without_effect(const Json& parameters, const std::vector<std::string>& names, const std::string& why) {
  for (const std::string& name : names)
    if (const Json value = parameters.value(name, Json()); !value.is_null() && value != false)
      fail(ErrorKind::kUsage, "{}: has no effect {}", name, why);
}

bool bool_parameter(const Json& parameters, const char* name, bool otherwise) {
  const auto found = parameters.find(name);
  if (found == parameters.end()) return otherwise;
  if (!found->is_boolean()) fail("parameter {}: expected true or false, found {}", name, quoted(dump_json(*found)));
  return found->get<bool>();
}

}  // namespace transom
