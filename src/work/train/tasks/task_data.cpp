// SPDX-License-Identifier: Apache-2.0
#include "work/train/tasks/task_data.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/files/directories.h"
#include "base/numbers/mt19937.h"
#include "base/terminal/log.h"
#include "files/config/config.h"
#include "inputs/audio/sound.h"
#include "inputs/data/columns.h"
#include "inputs/data/tables/labelled_files.h"
#include "inputs/data/text/conversation_rows.h"
#include "inputs/data/text/tokenised_rows.h"
#include "inputs/images/frames/video_file.h"
#include "inputs/images/image.h"
#include "models/loading/maximum_tokens.h"
#include "models/records.h"
#include "runtime/device/static_shapes.h"
#include "work/train/arguments/effects.h"
#include "work/train/metrics/metrics.h"
#include "work/train/setup/adapters.h"
#include "work/train/setup/new_model.h"
#include "work/train/step/objective.h"
#include "work/train/tasks/chats/supervised_fine_tuning.h"
#include "work/train/tasks/class_reports.h"
#include "work/train/tasks/model_classes.h"
#include "work/train/tasks/policies/policy_options.h"
#include "work/train/tasks/policies/policy_tasks.h"
#include "work/train/tasks/preferences/preference_tasks.h"
#include "work/train/tasks/ranking/text_ranking.h"
#include "work/train/tasks/read_report.h"
#include "work/train/tasks/sentences/file_sets.h"
#include "work/train/tasks/sentences/sentence_embedding.h"
#include "work/train/tasks/tasks.h"
#include "work/train/tasks/text/text_features.h"

namespace transom {
namespace {

struct Task {
  std::string_view name, alias;  // as pipelines are called
  // Whether the columns of a file are those of this task and of no other.
  bool (*fits)(const Dataset& data, const ScriptArguments& script);
  void (*prepare)(const TrainArguments& arguments, const TaskFiles& files, TaskSetup& setup);
  bool of_language = false;  // rows to evaluate on may be taken from those to train on, and samples count blocks
  Preprocessing preprocessing = Preprocessing::kTokenizer;
  // Whether the files of a folder a class are its rows.
  bool (*is_file)(const std::filesystem::path& name) = nullptr;
  // Sets what was not given to the defaults of this task, where they are others than those of TrainingArguments.
  void (*defaults)(TrainArguments& arguments) = nullptr;
};

bool has(const Dataset& data, std::string_view column) { return data.find(column).has_value(); }

bool has_class_for(const ScriptArguments& script, std::string_view pipeline) { return class_for(script, pipeline); }

bool learns_from_masks(const ScriptArguments& script) {
  const Architecture* known = class_for(script, "image-segmentation");
  return known && *known->head.labels == HeadLabels::kMasks;
}

// Rows alone do not say which of the losses is meant.
bool is_asked_for(const Dataset&, const ScriptArguments&) { return false; }

// Pictures in a folder are those of their classes, unless another task is asked for.
bool is_asked_for_by_name(const std::filesystem::path&) { return false; }

const Task kTasks[] = {
    {.name = "sft",
     .alias = "supervised-fine-tuning",
     .fits =
         [](const Dataset& data, const ScriptArguments& script) {
           const std::string form = conversation_form(data);
           return !script.text_column_name && !form.empty() && form != "preferences" && form != "rated answers";
         },
     .prepare = prepare_supervised_fine_tuning,
     .defaults = supervised_fine_tuning_defaults},
    {.name = "dpo",
     .alias = "",
     .fits = is_asked_for,
     .prepare = prepare_direct_preferences,
     .defaults = preference_defaults},
    {.name = "kto",
     .alias = "",
     .fits = is_asked_for,
     .prepare = prepare_rated_answers,
     .defaults = rated_answer_defaults},
    {.name = "orpo", .alias = "", .fits = is_asked_for, .prepare = prepare_odds_ratio, .defaults = preference_defaults},
    {.name = "cpo",
     .alias = "",
     .fits = is_asked_for,
     .prepare = prepare_contrastive_preferences,
     .defaults = preference_defaults},
    {.name = "reward",
     .alias = "reward-modeling",
     .fits = is_asked_for,
     .prepare = prepare_reward_model,
     .defaults = reward_defaults},
    {.name = "grpo",
     .alias = "",
     .fits = is_asked_for,
     .prepare = prepare_policy_training,
     .defaults = group_policy_defaults},
    {.name = "rloo",
     .alias = "",
     .fits = is_asked_for,
     .prepare = prepare_policy_training,
     .defaults = leave_one_out_defaults},
    {.name = kOnlinePreferences,
     .alias = "",
     .fits = is_asked_for,
     .prepare = prepare_policy_training,
     .defaults = online_preference_defaults},
    {.name = "sentence-embedding",
     .alias = "sentence-similarity",
     .fits = [](const Dataset&, const ScriptArguments&) { return false; },
     .prepare = prepare_sentence_embedding,
     .defaults = sentence_defaults},
    {.name = "text-ranking",
     .alias = "cross-encoder",
     .fits = [](const Dataset&, const ScriptArguments&) { return false; },
     .prepare = prepare_text_ranking,
     .defaults = sentence_defaults},
    {"token-classification", "ner",
     [](const Dataset& data, const ScriptArguments& script) {
       const auto& task = script.task_name;
       return task == "ner" || task == "pos" || task == "chunk" || has(data, "tokens");
     },
     prepare_token_classification},
    {"question-answering", "",
     [](const Dataset& data, const ScriptArguments& script) { return has_questions(data, script); },
     prepare_question_answering},
    {"multiple-choice", "",
     [](const Dataset& data, const ScriptArguments&) { return has(data, "ending0") && has(data, "sent1"); },
     prepare_multiple_choice},
    {"fill-mask", "masked-language-modeling", [](const Dataset&, const ScriptArguments&) { return false; },
     prepare_masked_language_modelling, true},
    {"click-prediction", "",
     [](const Dataset&, const ScriptArguments& script) { return has_class_for(script, "click-prediction"); },
     prepare_click_prediction, false, Preprocessing::kNone},
    {"contrastive-image-text", "zero-shot-image-classification",
     [](const Dataset& data, const ScriptArguments& script) {
       return has_class_for(script, "zero-shot-image-classification") &&
              !has(data, script.label_column_name.value_or("label"));
     },
     prepare_image_text_contrast, false, Preprocessing::kTokenizerAndImages},
    {"instance-segmentation", "",
     [](const Dataset& data, const ScriptArguments& script) {
       return (has(data, kMaskColumn) || has(data, script.label_column_name.value_or(kObjectMapColumn))) &&
              learns_from_masks(script);
     },
     prepare_instance_segmentation, false, Preprocessing::kImages},
    {"object-detection", "",
     [](const Dataset& data, const ScriptArguments& script) {
       return has(data, script.image_column_name) && has(data, "objects.bbox");
     },
     prepare_object_detection, false, Preprocessing::kImages},
    {"image-segmentation", "semantic-segmentation",
     [](const Dataset& data, const ScriptArguments& script) {
       return has(data, script.image_column_name) && has_class_for(script, "image-segmentation");
     },
     prepare_semantic_segmentation, false, Preprocessing::kImages},
    {"image-classification", "",
     [](const Dataset& data, const ScriptArguments& script) { return has(data, script.image_column_name); },
     prepare_image_classification, false, Preprocessing::kImages, is_image_name},
    {.name = "video-classification",
     .alias = "",
     .fits = [](const Dataset& data, const ScriptArguments&) { return has(data, kVideoColumn); },
     .prepare = prepare_video_classification,
     .preprocessing = Preprocessing::kImages,
     .is_file = is_video_name},
    {.name = "unconditional-image-generation",
     .alias = "",
     .fits = is_asked_for,
     .prepare = prepare_unconditional_images,
     .preprocessing = Preprocessing::kNone,
     .is_file = is_image_name,
     .defaults = unconditional_image_defaults},
    {.name = kMaskedPictures,
     .alias = "mae",
     .fits = is_asked_for,
     .prepare = prepare_masked_pictures,
     .preprocessing = Preprocessing::kImages,
     .is_file = is_asked_for_by_name,
     .defaults = masked_picture_defaults},
    {.name = "text-to-image",
     .alias = "",
     .fits = is_asked_for,
     .prepare = prepare_text_to_image,
     .preprocessing = Preprocessing::kNone,
     .is_file = is_asked_for_by_name,
     .defaults = text_to_image_defaults},
    {.name = "text-to-image-control",
     .alias = "",
     .fits = is_asked_for,
     .prepare = prepare_controlnet,
     .preprocessing = Preprocessing::kNone,
     .is_file = is_asked_for_by_name,
     .defaults = controlnet_defaults},
    {.name = "dreambooth",
     .alias = "",
     .fits = is_asked_for,
     .prepare = prepare_dreambooth,
     .preprocessing = Preprocessing::kNone,
     .is_file = is_asked_for_by_name,
     .defaults = dreambooth_defaults},
    {.name = "textual-inversion",
     .alias = "",
     .fits = is_asked_for,
     .prepare = prepare_textual_inversion,
     .preprocessing = Preprocessing::kNone,
     .is_file = is_asked_for_by_name,
     .defaults = textual_inversion_defaults},
    {.name = "text-to-speech",
     .alias = "text-to-audio",
     .fits =
         [](const Dataset& data, const ScriptArguments& script) {
           return has_class_for(script, "text-to-audio") && has(data, script.audio_column_name);
         },
     .prepare = prepare_text_to_speech},
    {"automatic-speech-recognition", "ctc",
     [](const Dataset& data, const ScriptArguments& script) {
       return has(data, script.audio_column_name) && has(data, script.text_column_name.value_or("text"));
     },
     prepare_speech_recognition, false, Preprocessing::kSounds},
    {"audio-classification", "",
     [](const Dataset& data, const ScriptArguments& script) { return has(data, script.audio_column_name); },
     prepare_audio_classification, false, Preprocessing::kSounds, is_sound_name},
    {"text-generation", "language-modeling", [](const Dataset&, const ScriptArguments&) { return false; },
     prepare_causal_language_modelling, true},
    {"translation", "", [](const Dataset&, const ScriptArguments& script) { return script.target_lang.has_value(); },
     prepare_sequence_to_sequence, true},
    {"summarization", "",
     [](const Dataset&, const ScriptArguments& script) { return script.summary_column.has_value(); },
     prepare_sequence_to_sequence, true},
    {"text2text-generation", "", [](const Dataset&, const ScriptArguments&) { return false; },
     prepare_sequence_to_sequence, true},
    {"text-classification", "sentiment-analysis", [](const Dataset&, const ScriptArguments&) { return true; },
     prepare_text_classification},
};

const Task& find_task(const ScriptArguments& script, const Dataset& data) {
  // Answers with labels are no pairs of texts to be told apart, unless somebody says so.
  if (const std::string form = conversation_form(data);
      form == "rated answers" && !script.task && !script.text_column_name && !script.text_column_names)
    refuse_conversations(data, form, "--text_column_name");
  std::vector<std::string> names;
  for (const Task& task : kTasks) {
    if (script.task ? *script.task == task.name || *script.task == task.alias : task.fits(data, script)) return task;
    names.emplace_back(task.name);
  }
  fail(ErrorKind::kUsage, "--task: cannot train {} on text{} Known are: {}; other tasks take rows with input_ids",
       transom::quoted(*script.task), did_you_mean(*script.task, names), fmt::join(names, ", "));
}

// The task whose files lie in the folders of a directory.
const Task& find_folder_task(const ScriptArguments& script) {
  const std::string directory = script.train_dir ? *script.train_dir : *script.validation_dir;
  const std::vector<std::filesystem::path> files =
      script.task ? std::vector<std::filesystem::path>() : visible_files(directory);
  for (const Task& task : kTasks) {
    if (!task.is_file) continue;
    if (script.task && (*script.task == task.name || *script.task == task.alias)) return task;
    if (std::any_of(files.begin(), files.end(), task.is_file)) return task;
  }
  if (script.task)
    fail(ErrorKind::kUsage,
         "--task: folders of files are for image-classification, video-classification, "
         "unconditional-image-generation, masked-image-modeling, text-to-image, dreambooth, textual-inversion, "
         "text-to-image-control and audio-classification, not for {}",
         transom::quoted(*script.task));
  fail("{}: expected one folder a class, with images or sounds in it", directory);
}

Metrics classification_metrics(const ScriptArguments& script, const Predictions& predictions) {
  const Predictions::Array* logits = find_output(predictions, "logits");
  const auto& task = script.task_name;
  const auto& metric = script.metric_name;
  if (!logits || logits->shape.size() != 2) return {};
  if (!predictions.labels.empty() && static_cast<int64_t>(predictions.labels.size()) == predictions.rows)
    return as_metrics(class_metrics(task, metric, predictions.labels, largest(logits->values, logits->shape[1])));
  if (predictions.label_values.empty()) return {};
  if (logits->shape[1] > 1)
    return as_metrics(multi_label_metrics(metric, predictions.label_values, logits->values, logits->shape[1]));
  const std::vector<double> labels(predictions.label_values.begin(), predictions.label_values.end()),
      found(logits->values.begin(), logits->values.end());
  return as_metrics(regression_metrics(task, metric, labels, found));
}

std::optional<Dataset> load(const std::optional<std::string>& file, const ScriptArguments& script) {
  if (!file) return std::nullopt;
  return Dataset::load(first_file(*file), dataset_options(script));
}

void limit_rows(std::optional<Dataset>& data, std::optional<int64_t> limit) {
  if (data && limit) data = data->first(std::min(*limit, data->size()));
}

void limit_rows(TaskFiles& files, const ScriptArguments& script) {
  files.whole = files.any();
  if (files.train && script.shuffle_train_dataset)
    files.train =
        files.train->select(Mt19937(static_cast<uint64_t>(script.shuffle_seed)).randperm(files.train->size()));
  limit_rows(files.train, script.max_train_samples);
  limit_rows(files.validation, script.max_eval_samples);
  limit_rows(files.test, script.max_predict_samples);
}

// The first rows of the training file as validation rows, where there are none (run_mlm).
void split_validation(TaskFiles& files, const ScriptArguments& script) {
  const Dataset all = *files.train;
  const auto count =
      static_cast<int64_t>(std::nearbyint(static_cast<double>(script.validation_split_percentage * all.size()) / 100));
  std::vector<int64_t> kept, rest;
  for (int64_t i = 0; i < all.size(); ++i) (i < count ? kept : rest).push_back(i);
  require(!kept.empty() && !rest.empty(), "{}: has too few rows to keep {} % of them for validation",
          *script.train_file, script.validation_split_percentage);
  files.validation = all.select(std::move(kept));
  files.train = all.select(std::move(rest));
}

TrainingData tokenised(const Dataset& data, const Model& model, const TrainArguments& arguments) {
  const auto rows = std::make_shared<const TokenisedRows>(data, is_encoder_decoder(head_of(model)));
  PaddingOptions padding{.pad_token_id = model.config().get_int("pad_token_id", 0)};
  padding.separate_labels = is_encoder_decoder(head_of(model));
  padding.multiple_of = arguments.script.pad_to_multiple_of;
  if (arguments.script.pad_to_max_length.value_or(false)) padding.max_length = arguments.script.max_seq_length;
  else
    padding.bucket = length_buckets(arguments.script.length_buckets, arguments.script.max_seq_length
                                                                         ? arguments.script.max_seq_length
                                                                         : maximum_tokens(model.config()));
  TrainingData result;
  result.rows = rows->size();
  result.lengths = rows->lengths(arguments.training.length_column_name);
  result.batch = [rows, padding](const std::vector<int64_t>& indices) {
    std::vector<Features> features;
    for (const int64_t index : indices) features.push_back(rows->row(index));
    return collate(features, padding);
  };
  return result;
}

void prepare_tokenised(const TrainArguments& arguments, const TaskFiles& files, TaskSetup& setup) {
  const Dataset& any = files.any();
  const auto label = any.find("labels") ? any.find("labels") : any.find("label");
  setup.reads = what_is_read(
      {"tokens: column input_ids", label ? column_part("labels", any, *label) : "no column of labels"}, files);
  setup.model = load_model(arguments, arguments.script.model_name_or_path,
                           load_options(arguments, arguments.script.task.value_or("")));
  const bool causal = *head_of(*setup.model).task == HeadTask::kCausalLM;
  const auto rows = [&](const Dataset& data) {
    TrainingData result = tokenised(data, *setup.model, arguments);
    if (!causal) return result;
    const Config& config = setup.model->config();
    return with_causal_labels(
        std::move(result), config.has("pad_token_id") ? std::optional(config.get_int("pad_token_id")) : std::nullopt);
  };
  // What kind of labels they are says which metrics there are.
  const ColumnType type = label ? any.columns()[*label].type : ColumnType::kNull;
  const MetricKind kind = type == ColumnType::kFloat    ? MetricKind::kRegression
                          : type == ColumnType::kFloats ? MetricKind::kMultiLabel
                                                        : MetricKind::kClasses;
  expect_metric(kind, arguments.script.metric_name);
  if (label && type != ColumnType::kInts)
    setup.metric_names = metric_names(kind, arguments.script.task_name, arguments.script.metric_name);
  if (files.train) setup.train = rows(*files.train);
  if (files.validation) setup.validation = rows(*files.validation);
  if (causal) score_causal_language_modelling(setup);
  if (is_encoder_decoder(head_of(*setup.model))) score_loss_only(setup);
}

}  // namespace

void fetch_models(ScriptArguments& script, HubOptions hub) {
  hub.revision = script.model_revision;
  hub.token = script.token;
  hub.cache_dir = script.cache_dir;
  if (!script.model_name_or_path.empty() || !script.config_name)
    script.model_name_or_path = resolve_model(script.model_name_or_path, hub);
  if (script.tokenizer_name) script.tokenizer_name = resolve_tokenizer(*script.tokenizer_name, hub);
}

namespace {

void say_without_effect(const TrainArguments& arguments, std::string_view task) {
  for (const std::string& sentence : without_effect(arguments, task)) log(LogLevel::kInfo, sentence);
}

TaskSetup prepare(TrainArguments& arguments, HubOptions hub) {
  const ScriptArguments& script = arguments.script;
  if (!script.train_file && !script.validation_file && !script.test_file && !script.train_dir && !script.validation_dir)
    fail(ErrorKind::kUsage,
         "--train_file (or --validation_file, to evaluate only), or --train_dir of images or sounds, is missing");
  TaskSetup setup;
  TaskFiles files{load(script.train_file, script), load(script.validation_file, script),
                  load(script.test_file, script)};
  if (arguments.training.max_predictions_per_seq > 0 && script.teacher_model)
    fail(ErrorKind::kUsage,
         "--max_predictions_per_seq: a teacher compares logits of all positions; leave --teacher_model out");
  fetch_models(arguments.script, std::move(hub));
  const bool folders = script.train_dir || script.validation_dir;
  if (!folders && is_tokenised(files.any())) {
    say_without_effect(arguments, "");
    start_from_scratch(arguments);
    limit_rows(files, script);
    prepare_tokenised(arguments, files, setup);
  } else {
    const Task& task = folders ? find_folder_task(script) : find_task(script, files.any());
    if (arguments.training.max_predictions_per_seq > 0 && task.name != "fill-mask")
      fail(ErrorKind::kUsage, "--max_predictions_per_seq: is for --task fill-mask, found {}", task.name);
    say_without_effect(arguments, task.name);
    if (task.defaults) task.defaults(arguments);
    start_from_scratch(arguments, task.preprocessing);
    if (!task.of_language) limit_rows(files, script);
    else if (arguments.training.do_eval && files.train && !files.validation) split_validation(files, script);
    // Before the model is loaded. Tasks of files keep some of those to train on for it.
    if (arguments.training.do_eval && !files.validation && task.preprocessing == Preprocessing::kTokenizer)
      fail(ErrorKind::kUsage, "--do_eval: there is nothing to evaluate: give --validation_file (or --validation_dir)");
    task.prepare(arguments, files, setup);
  }
  // Who asks for rows of one length gets them.
  if (script.pad_to_max_length.value_or(false) && !arguments.training.padding_free)
    arguments.training.padding_free = false;
  if (!setup.compute_metrics)
    setup.compute_metrics = [script](const Predictions& predictions) {
      return classification_metrics(script, predictions);
    };
  add_class_report(arguments, setup);
  return setup;
}

}  // namespace

TaskSetup prepare_task(TrainArguments arguments, HubOptions hub) {
  const std::string base = arguments.script.model_name_or_path;
  TaskSetup setup = prepare(arguments, hub);
  if (arguments.training.do_train) setup.teacher = load_teacher(arguments, std::move(hub));
  add_adapters(arguments, base.empty() ? arguments.script.model_name_or_path : base, *setup.model,
               setup.train ? &*setup.train : nullptr);
  setup.training = arguments.training;
  if (setup.complete) setup.complete(setup);
  if (const BatchMeasures* measures = setup.objective ? setup.objective->measures() : nullptr;
      measures && !setup.metric_names)
    setup.metric_names = measures->names;
  if (!setup.reads.empty() && !arguments.script.json) log(LogLevel::kInfo, setup.reads);  // --json is for machines
  return setup;
}

void configure_trainer(Trainer& trainer, TaskSetup& setup) {
  if (setup.objective) trainer.set_objective(std::move(setup.objective));
  if (setup.teacher.model) trainer.set_teacher(setup.teacher.model, setup.teacher.inputs_of);
  if (setup.train) trainer.set_train_data(std::move(*setup.train));
  if (setup.validation) trainer.set_eval_data(std::move(*setup.validation));
  if (setup.preprocess_outputs) trainer.set_preprocess_outputs(setup.preprocess_outputs);
  if (setup.predict) trainer.set_predictor(setup.predict);
  if (setup.compute_metrics) trainer.set_compute_metrics(setup.compute_metrics);
  if (setup.save_tokenizer) trainer.set_save_hook(setup.save_tokenizer);
}

}  // namespace transom
