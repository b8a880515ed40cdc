// SPDX-License-Identifier: Apache-2.0
// The structs of transom/task_pipelines.h as what every task reads, and results as what they say.
#include "transom/task_pipelines.h"

#include "base/error.h"
#include "base/json/json.h"
#include "work/pipelines/json/task_json.h"
#include "work/pipelines/loaded_pipeline.h"

namespace transom {
namespace {

// ---- inputs

template <typename Task>
TaskInput input_of(const typename Task::Input& input) {
  const InputKind kind = need_task(Task::kName).input;
  if constexpr (!std::is_same_v<typename Task::Input, std::string>) return input;
  else if (kind == InputKind::kImage) return ImageInput(input);
  else if (kind == InputKind::kAudio) return SoundInput(input);
  else if (kind == InputKind::kVideo) return VideoInput(input);
  else return TextInput(input);
}

// ---- options; what is empty is left out, so that the task's own default holds

std::optional<std::string> if_any(const std::string& text) { return text.empty() ? std::nullopt : std::optional(text); }

template <typename E>
std::optional<std::string> name_if_any(const std::optional<OneOf<E>>& option) {
  return option ? std::optional<std::string>(option->name()) : std::nullopt;
}

TaskOptions::Value none_or(const std::optional<int64_t>& number) {
  return number ? TaskOptions::Value(*number) : TaskOptions::Value();
}

TaskOptions options_of(const TextClassificationTask::Options& given) {
  return TaskOptions{{"top_k", none_or(given.top_k)}}.set("function_to_apply", name_if_any(given.function_to_apply));
}

TaskOptions options_of(const TokenClassificationTask::Options& given) {
  return TaskOptions{{"ignore_labels", given.ignore_labels}}
      .set("aggregation_strategy", std::string(given.aggregation_strategy.name()))
      .set("stride", given.stride);
}

TaskOptions options_of(const QuestionAnsweringTask::Options& given) {
  return TaskOptions{{"top_k", given.top_k},
                     {"max_answer_len", given.max_answer_len},
                     {"max_seq_len", given.max_seq_len},
                     {"align_to_words", given.align_to_words},
                     {"handle_impossible_answer", given.handle_impossible_answer}}
      .set("doc_stride", given.doc_stride);
}

TaskOptions options_of(const FillMaskTask::Options& given) {
  TaskOptions options{{"top_k", given.top_k}};
  if (!given.targets.empty()) options.set("targets", given.targets);
  return options;
}

TaskOptions options_of(const FeatureExtractionTask::Options& given) {
  TaskOptions options;
  options.set("pooling", name_if_any(given.pooling)).set("prompt_name", if_any(given.prompt_name));
  options.set("prompt", given.prompt).set("truncate_dim", given.truncate_dim);
  if (given.normalize_embeddings) options.set("normalize_embeddings", true);
  return options;
}

TaskOptions options_of(const SentenceSimilarityTask::Options& given) {
  TaskOptions options;
  options.set("pooling", name_if_any(given.pooling)).set("prompt_name", if_any(given.prompt_name));
  return options.set("prompt", given.prompt);
}

TaskOptions options_of(const ZeroShotClassificationTask::Options& given) {
  return {{"candidate_labels", given.candidate_labels},
          {"hypothesis_template", given.hypothesis_template},
          {"multi_label", given.multi_label}};
}

TaskOptions options_of(const ObjectDetectionTask::Options& given) { return {{"threshold", given.threshold}}; }

TaskOptions options_of(const ImageSegmentationTask::Options& given) {
  TaskOptions options;
  options.set("subtask", name_if_any(given.subtask)).set("threshold", given.threshold);
  options.set("mask_threshold", given.mask_threshold);
  return options.set("overlap_mask_area_threshold", given.overlap_mask_area_threshold);
}

TaskOptions options_of(const ZeroShotImageClassificationTask::Options& given) {
  return {{"candidate_labels", given.candidate_labels}, {"hypothesis_template", given.hypothesis_template}};
}

TaskOptions options_of(const ImageClassificationTask::Options& given) {
  return TaskOptions{{"top_k", none_or(given.top_k)}}.set("function_to_apply", name_if_any(given.function_to_apply));
}

TaskOptions options_of(const VideoClassificationTask::Options& given) {
  return TaskOptions{{"top_k", none_or(given.top_k)}, {"frame_sampling_rate", given.frame_sampling_rate}}
      .set("num_frames", given.num_frames)
      .set("function_to_apply", name_if_any(given.function_to_apply));
}

TaskOptions options_of(const AudioClassificationTask::Options& given) {
  return TaskOptions().set("top_k", given.top_k).set("function_to_apply", name_if_any(given.function_to_apply));
}

TaskOptions options_of(const SpeechRecognitionTask::Options& given) {
  TaskOptions options;
  options.set("chunk_length_s", given.chunk_length_s);
  if (given.return_timestamps && *given.return_timestamps == Timestamps::kSegment)
    options.set("return_timestamps", true);
  else options.set("return_timestamps", name_if_any(given.return_timestamps));
  if (given.return_language) options.set("return_language", true);
  return options.set("language", if_any(given.language)).set("task", name_if_any(given.task));
}

TaskOptions options_of(const TextOptions& given, const TaskParameters& parameters) {
  const Json others = parse_json(given.parameters, "TextOptions::parameters");
  if (!others.is_object()) fail(ErrorKind::kUsage, "TextOptions::parameters: expected a JSON object");
  TaskOptions options = options_of_json(parameters, others);
  options.set("max_new_tokens", given.max_new_tokens).set("num_beams", given.num_beams);
  options.set("num_return_sequences", given.num_return_sequences).set("top_k", given.top_k);
  options.set("do_sample", given.do_sample).set("temperature", given.temperature).set("top_p", given.top_p);
  if (given.seed) options.set("seed", TaskOptions::JsonText{std::to_string(*given.seed)});  // beyond int64, too
  return options;
}

template <typename Task>
TaskOptions options_of_task(const typename Task::Options& given) {
  if constexpr (std::is_base_of_v<TextOptions, typename Task::Options>) {
    TaskOptions options = options_of(static_cast<const TextOptions&>(given), need_task(Task::kName).parameters());
    if constexpr (std::is_same_v<Task, TextGenerationTask> || std::is_same_v<Task, ImageTextToTextTask>)
      options.set("return_full_text", given.return_full_text);
    return options;
  } else {
    return options_of(given);
  }
}

// ---- results

template <typename Task>
typename Task::Result result_of(TaskResult result) {
  if constexpr (std::is_base_of_v<TextOptions, typename Task::Options>) {
    std::vector<std::string> texts;
    for (WrittenText& each : std::get<std::vector<WrittenText>>(result)) {
      std::string* text = std::get_if<std::string>(&each);
      if (!text)
        fail(ErrorKind::kUsage, "this pipeline returns texts, found token ids; pipeline() returns other results, too");
      texts.push_back(std::move(*text));
    }
    return texts;
  } else {
    return std::get<typename Task::Result>(std::move(result));
  }
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
  TaskOptions given = options_of_task<Task>(options);
  if (!given.contains("batch_size")) given.set("batch_size", batch_size_);
  std::vector<TaskInput> all;
  for (const Input& input : inputs) all.push_back(input_of<Task>(input));
  std::vector<Result> results;
  for (TaskResult& result : run_pipeline(*task_, all, given)) results.push_back(result_of<Task>(std::move(result)));
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
template class TaskPipeline<VideoClassificationTask>;
template class TaskPipeline<ObjectDetectionTask>;
template class TaskPipeline<ImageSegmentationTask>;
template class TaskPipeline<ZeroShotImageClassificationTask>;
template class TaskPipeline<AudioClassificationTask>;
template class TaskPipeline<SpeechRecognitionTask>;
template class TaskPipeline<TextGenerationTask>;
template class TaskPipeline<ImageTextToTextTask>;
template class TaskPipeline<Text2TextGenerationTask>;
template class TaskPipeline<SummarizationTask>;
template class TaskPipeline<TranslationTask>;

}  // namespace transom
