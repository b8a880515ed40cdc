// SPDX-License-Identifier: Apache-2.0
// Between the structs of transom/task_pipelines.h and the JSON that tasks read and return.
#include "transom/task_pipelines.h"

#include "base/error.h"
#include "base/json/json.h"
#include "pipelines/loaded_pipeline.h"

namespace transom {
namespace {

// ---- inputs

Json json_of_input(const std::string& text) { return text; }
Json json_of_input(const QuestionAnsweringTask::Input& input) {
  return {{"question", input.question}, {"context", input.context}};
}
Json json_of_input(const SentenceSimilarityTask::Input& input) {
  return {{"source_sentence", input.source_sentence}, {"sentences", input.sentences}};
}

// ---- options; what is empty is left out, so that the task's own default holds

template <typename T>
void add(Json& parameters, const char* name, const std::optional<T>& value) {
  if (value) parameters[name] = *value;
}
void add(Json& parameters, const char* name, const std::string& value) {
  if (!value.empty()) parameters[name] = value;
}

Json parameters_of(const TextClassificationTask::Options& options) {
  Json parameters{{"top_k", options.top_k ? Json(*options.top_k) : Json()}};
  add(parameters, "function_to_apply", options.function_to_apply);
  return parameters;
}

Json parameters_of(const TokenClassificationTask::Options& options) {
  Json parameters{{"ignore_labels", options.ignore_labels}};
  add(parameters, "aggregation_strategy", options.aggregation_strategy);
  add(parameters, "stride", options.stride);
  return parameters;
}

Json parameters_of(const QuestionAnsweringTask::Options& options) {
  Json parameters{{"top_k", options.top_k},
                  {"max_answer_len", options.max_answer_len},
                  {"max_seq_len", options.max_seq_len},
                  {"align_to_words", options.align_to_words},
                  {"handle_impossible_answer", options.handle_impossible_answer}};
  add(parameters, "doc_stride", options.doc_stride);
  return parameters;
}

Json parameters_of(const FillMaskTask::Options& options) {
  Json parameters{{"top_k", options.top_k}};
  if (!options.targets.empty()) parameters["targets"] = options.targets;
  return parameters;
}

Json parameters_of(const FeatureExtractionTask::Options& options) {
  Json parameters = Json::object();
  add(parameters, "pooling", options.pooling);
  add(parameters, "prompt_name", options.prompt_name);
  add(parameters, "prompt", options.prompt);
  if (options.normalize_embeddings) parameters["normalize_embeddings"] = true;
  add(parameters, "truncate_dim", options.truncate_dim);
  return parameters;
}

Json parameters_of(const SentenceSimilarityTask::Options& options) {
  Json parameters = Json::object();
  add(parameters, "pooling", options.pooling);
  add(parameters, "prompt_name", options.prompt_name);
  add(parameters, "prompt", options.prompt);
  return parameters;
}

Json parameters_of(const ZeroShotClassificationTask::Options& options) {
  return {{"candidate_labels", options.candidate_labels},
          {"hypothesis_template", options.hypothesis_template},
          {"multi_label", options.multi_label}};
}

Json parameters_of(const ZeroShotImageClassificationTask::Options& options) {
  return {{"candidate_labels", options.candidate_labels}, {"hypothesis_template", options.hypothesis_template}};
}

Json parameters_of(const ImageClassificationTask::Options& options) {
  Json parameters{{"top_k", options.top_k ? Json(*options.top_k) : Json()}};
  add(parameters, "function_to_apply", options.function_to_apply);
  return parameters;
}

Json parameters_of(const AudioClassificationTask::Options& options) {
  Json parameters = Json::object();
  add(parameters, "top_k", options.top_k);
  add(parameters, "function_to_apply", options.function_to_apply);
  return parameters;
}

Json parameters_of(const SpeechRecognitionTask::Options& options) {
  Json parameters = Json::object();
  add(parameters, "chunk_length_s", options.chunk_length_s);
  if (options.return_timestamps == "segment") parameters["return_timestamps"] = true;
  else add(parameters, "return_timestamps", options.return_timestamps);
  if (options.return_language) parameters["return_language"] = true;
  add(parameters, "language", options.language);
  add(parameters, "task", options.task);
  return parameters;
}

Json parameters_of(const TextOptions& options) {
  Json parameters = parse_json(options.parameters, "TextOptions::parameters");
  if (!parameters.is_object()) fail(ErrorKind::kUsage, "TextOptions::parameters: expected a JSON object");
  add(parameters, "max_new_tokens", options.max_new_tokens);
  add(parameters, "num_beams", options.num_beams);
  add(parameters, "num_return_sequences", options.num_return_sequences);
  add(parameters, "top_k", options.top_k);
  add(parameters, "do_sample", options.do_sample);
  add(parameters, "temperature", options.temperature);
  add(parameters, "top_p", options.top_p);
  add(parameters, "seed", options.seed);
  return parameters;
}

Json parameters_of(const TextGenerationTask::Options& options) {
  Json parameters = parameters_of(static_cast<const TextOptions&>(options));
  parameters["return_full_text"] = options.return_full_text;
  return parameters;
}

// ---- results

// One result, or several, as a list.
Json as_list(const Json& result) { return result.is_array() ? result : Json::array({result}); }

int64_t int_of(const Json& result, const char* name, int64_t otherwise) {
  const auto found = result.find(name);
  return found != result.end() && found->is_number_integer() ? found->get<int64_t>() : otherwise;
}

void read(const Json& json, ClassScore& result) {
  result = {json.at("label").get<std::string>(), json.at("score").get<double>()};
}

void read(const Json& json, NamedEntity& result) {
  result = {.label = json.at(json.contains("entity") ? "entity" : "entity_group").get<std::string>(),
            .score = json.at("score").get<double>(),
            .word = json.at("word").get<std::string>(),
            .index = int_of(json, "index", -1),
            .start = int_of(json, "start", 0),
            .end = int_of(json, "end", 0)};
}

void read(const Json& json, AnswerSpan& result) {
  result = {json.at("answer").get<std::string>(), json.at("score").get<double>(), int_of(json, "start", 0),
            int_of(json, "end", 0)};
}

void read(const Json& json, FilledMask& result) {
  result = {json.at("token_str").get<std::string>(), json.at("token").get<int64_t>(), json.at("score").get<double>(),
            json.at("sequence").get<std::string>()};
}

// {"generated_text": "..."}, {"summary_text": "..."} ...
void read(const Json& json, std::string& result) {
  for (const auto& [name, value] : json.items())
    if (name.ends_with("_text") && value.is_string()) {
      result = value.get<std::string>();
      return;
    }
  fail(ErrorKind::kUsage, "this pipeline returns texts, found {}; pipeline() returns other results as JSON",
       quoted(dump_json(json)));
}

template <typename T>
void read(const Json& json, std::vector<T>& result) {
  for (const Json& each : as_list(json)) read(each, result.emplace_back());
}

void read(const Json& json, std::vector<double>& result) { result = json.get<std::vector<double>>(); }

// Of a text with one mask the list of its tokens, of one with several a list for each.
void read(const Json& json, std::vector<std::vector<FilledMask>>& result) {
  const bool several = !json.empty() && json.front().is_array();
  for (const Json& each : several ? json : Json::array({json})) read(each, result.emplace_back());
}

void read_numbers(const Json& json, size_t axis, FeatureArray& result) {
  if (json.is_number()) {
    result.values.push_back(json.get<float>());
    return;
  }
  if (axis == result.shape.size()) result.shape.push_back(static_cast<int64_t>(json.size()));
  for (const Json& each : json) read_numbers(each, axis + 1, result);
}
void read(const Json& json, FeatureArray& result) { read_numbers(json, 0, result); }

void read(const Json& json, Transcription& result) {
  result.text = json.at("text").get<std::string>();
  for (const Json& each : json.value("chunks", Json::array())) {
    TranscribedChunk& chunk = result.chunks.emplace_back();
    chunk.text = each.at("text").get<std::string>();
    if (const auto times = each.find("timestamp"); times != each.end() && times->is_array() && times->size() == 2) {
      if ((*times)[0].is_number()) chunk.begin = (*times)[0].get<double>();
      if ((*times)[1].is_number()) chunk.end = (*times)[1].get<double>();
    }
    if (const auto language = each.find("language"); language != each.end() && language->is_string())
      chunk.language = language->get<std::string>();
  }
}

// {"sequence", "labels", "scores"}
void read_labels(const Json& json, std::vector<ClassScore>& result) {
  for (size_t i = 0; i < json.at("labels").size(); ++i)
    result.push_back({json["labels"][i].get<std::string>(), json.at("scores").at(i).get<double>()});
}

template <typename Task>
typename Task::Result result_of(const Json& json) {
  typename Task::Result result;
  if constexpr (std::is_same_v<Task, ZeroShotClassificationTask>) read_labels(json, result);
  else read(json, result);
  return result;
}

}  // namespace

template <typename Task>
TaskPipeline<Task>::TaskPipeline(const std::string& model, const PipelineOptions& options, const std::string& task)
    : batch_size_(options.batch_size) {
  const std::string name = Task::kName;
  if (task != name && !task.starts_with(name + "_"))
    fail(ErrorKind::kUsage, "task: expected {} or a variant of it, found {}", name, quoted(task));
  task_ = load_pipeline(task, model, options);
}

template <typename Task>
std::vector<typename Task::Result> TaskPipeline<Task>::run_all(const std::vector<Input>& inputs,
                                                               const Options& options) const {
  Json parameters = parameters_of(options);
  if (!parameters.contains("batch_size")) parameters["batch_size"] = batch_size_;
  std::vector<Json> given;
  for (const Input& input : inputs) given.push_back(json_of_input(input));
  std::vector<Result> results;
  for (const Json& result : run_pipeline(*task_, given, parameters)) results.push_back(result_of<Task>(result));
  return results;
}

template <typename Task>
typename Task::Result TaskPipeline<Task>::operator()(const Input& input, const Options& options) const {
  return std::move(run_all({input}, options).front());
}

template class TaskPipeline<TextClassificationTask>;
template class TaskPipeline<TokenClassificationTask>;
template class TaskPipeline<QuestionAnsweringTask>;
template class TaskPipeline<FillMaskTask>;
template class TaskPipeline<FeatureExtractionTask>;
template class TaskPipeline<SentenceSimilarityTask>;
template class TaskPipeline<ZeroShotClassificationTask>;
template class TaskPipeline<ImageClassificationTask>;
template class TaskPipeline<ZeroShotImageClassificationTask>;
template class TaskPipeline<AudioClassificationTask>;
template class TaskPipeline<SpeechRecognitionTask>;
template class TaskPipeline<TextGenerationTask>;
template class TaskPipeline<Text2TextGenerationTask>;
template class TaskPipeline<SummarizationTask>;
template class TaskPipeline<TranslationTask>;

}  // namespace transom
