// SPDX-License-Identifier: Apache-2.0
#include "train/task_data.h"

#include <algorithm>

#include "base/error.h"
#include "data/columns.h"
#include "data/tokenised_rows.h"
#include "io/config.h"
#include "train/metrics.h"
#include "train/text_classification.h"

namespace transom {
namespace {

// The index of the largest of each row of `width` numbers.
std::vector<int64_t> largest(const std::vector<float>& values, int64_t width) {
  std::vector<int64_t> result;
  for (auto row = values.begin(); row != values.end(); row += width)
    result.push_back(std::max_element(row, row + width) - row);
  return result;
}

Metrics as_metrics(const LogRecord& record) {
  Metrics metrics;
  for (const auto& [name, value] : record)
    if (const auto number = find_number(record, name)) metrics.emplace_back(name, *number);
  return metrics;
}

std::function<Metrics(const Predictions&)> classification_metrics(const ScriptArguments& script) {
  return [task = script.task_name, metric = script.metric_name](const Predictions& predictions) -> Metrics {
    const auto& outputs = predictions.outputs;
    const auto logits =
        std::find_if(outputs.begin(), outputs.end(), [](const auto& array) { return array.name == "logits"; });
    if (logits == outputs.end() || logits->shape.size() != 2) return {};
    if (!predictions.labels.empty() && static_cast<int64_t>(predictions.labels.size()) == predictions.rows)
      return as_metrics(class_metrics(task, metric, predictions.labels, largest(logits->values, logits->shape[1])));
    if (predictions.label_values.empty()) return {};
    if (logits->shape[1] > 1) return as_metrics(multi_label_metrics(predictions.label_values, logits->values));
    const std::vector<double> labels(predictions.label_values.begin(), predictions.label_values.end()),
        found(logits->values.begin(), logits->values.end());
    return as_metrics(regression_metrics(task, metric, labels, found));
  };
}

Dataset load(const std::string& file, const ScriptArguments& script, std::optional<int64_t> limit) {
  const Dataset data = Dataset::load(file, dataset_options(script));
  if (data.size() == 0) fail("{}: has no rows", file);
  return limit ? data.first(std::min(*limit, data.size())) : data;
}

TrainingData tokenised(const Dataset& data, const Model& model, const TrainArguments& arguments) {
  const auto rows = std::make_shared<const TokenisedRows>(data);
  PaddingOptions padding{.pad_token_id = model.config().get_int("pad_token_id", 0)};
  padding.multiple_of = arguments.script.pad_to_multiple_of;
  if (arguments.script.pad_to_max_length) padding.max_length = arguments.script.max_seq_length;
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

}  // namespace

void fetch_models(ScriptArguments& script, HubOptions hub) {
  hub.revision = script.model_revision;
  hub.token = script.token;
  hub.cache_dir = script.cache_dir;
  script.model_name_or_path = resolve_model(script.model_name_or_path, hub);
  if (script.tokenizer_name) script.tokenizer_name = resolve_tokenizer(*script.tokenizer_name, hub);
}

TaskSetup prepare_task(TrainArguments arguments, HubOptions hub) {
  const ScriptArguments& script = arguments.script;
  if (!script.train_file && !script.validation_file)
    fail(ErrorKind::kUsage, "--train_file (or --validation_file, to evaluate only) is missing");
  std::optional<Dataset> train, validation;
  if (script.train_file) train = load(*script.train_file, script, script.max_train_samples);
  if (script.validation_file) validation = load(*script.validation_file, script, script.max_eval_samples);
  const Dataset& any = train ? *train : *validation;
  fetch_models(arguments.script, std::move(hub));

  TaskSetup setup;
  const std::string task = script.task.value_or("text-classification");
  if (!is_tokenised(any) && task != "text-classification")
    fail(
        "--task {}: rows of text are trained on for text-classification only; for other tasks give rows with input_ids "
        "and labels",
        task);
  if (is_tokenised(any)) {
    LoadOptions options{.ignore_mismatched_sizes = script.ignore_mismatched_sizes,
                        .seed = static_cast<uint64_t>(arguments.training.seed)};
    options.task = script.task.value_or("");
    setup.model = Model::from_pretrained(script.model_name_or_path, options);
    if (train) setup.train = tokenised(*train, *setup.model, arguments);
    if (validation) setup.validation = tokenised(*validation, *setup.model, arguments);
    setup.compute_metrics = classification_metrics(script);
    return setup;
  }
  prepare_text_classification(arguments, train, validation, setup);
  setup.compute_metrics = classification_metrics(script);
  return setup;
}

}  // namespace transom
