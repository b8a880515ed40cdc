// SPDX-License-Identifier: Apache-2.0
#include "base/error.h"
#include "base/files/files.h"
#include "files/config/config.h"
#include "inputs/data/text/token_labels.h"
#include "models/records.h"
#include "work/train/metrics/entity_metrics.h"
#include "work/train/tasks/model_classes.h"
#include "work/train/tasks/read_report.h"
#include "work/train/tasks/tasks.h"
#include "work/train/tasks/text/text_features.h"

namespace transom {
namespace {

struct Encoded {
  Features features;
  std::vector<int64_t> labels;
};

// One row: its tokens, and a label for each. Rows without tags get the first label where a word begins, which tells
// where a prediction counts.
Encoded encode_row(const Dataset& data, int64_t i, const TokenColumns& columns, const TextEncoder& encoder,
                   const Labels& labels, bool label_all) {
  const Row row = data.row(i);
  const auto* words = std::get_if<std::vector<std::string>>(&row[columns.tokens]);
  const std::vector<std::string> none;
  if (!words) words = &none;
  std::vector<int64_t> tags(words->size());
  if (columns.tags && !words->empty()) tags = labels.ids(row[*columns.tags], data.where(i));
  require(tags.size() == words->size(), "{}: expected a tag for each of {} tokens, found {}", data.where(i),
          words->size(), tags.size());
  Encoding encoding = encoder.tokenizer().encode_words(
      *words, {.truncation = Truncation::kLongestFirst, .max_length = encoder.max_length()});
  std::vector<int64_t> aligned = align_labels(encoding.word_ids, tags, label_all, labels.names());
  return {encoder.features(std::move(encoding)), std::move(aligned)};
}

TrainingData tokenise_words(const Dataset& given, const TextEncoder& encoder, const Labels& labels,
                            const TrainArguments& arguments) {
  const Dataset data = with_token_lists(given, arguments.script);
  const TokenColumns columns = token_columns(data, arguments.script);
  return text_rows(data, arguments, encoder.padding(), [=, label_all = arguments.script.label_all_tokens](int64_t i) {
    Encoded row = encode_row(data, i, columns, encoder, labels, label_all);
    if (columns.tags) row.features.sequences["labels"] = std::move(row.labels);
    return std::move(row.features);
  });
}

// The rows of an array [rows, T] of whole numbers.
std::vector<std::vector<int64_t>> rows_of(std::span<const int64_t> values, int64_t rows) {
  std::vector<std::vector<int64_t>> result;
  const size_t width = rows > 0 ? values.size() / static_cast<size_t>(rows) : 0;
  for (int64_t row = 0; row < rows; ++row) {
    const auto part = values.subspan(static_cast<size_t>(row) * width, width);
    result.emplace_back(part.begin(), part.end());
  }
  return result;
}

std::vector<std::vector<int64_t>> predicted_rows(const Predictions& predictions) {
  const auto& values = find_output(predictions, "predictions")->values;
  return rows_of(std::vector<int64_t>(values.begin(), values.end()), predictions.rows);
}

Metrics metrics_of(const Predictions& predictions, const std::vector<std::string>& names, bool by_type) {
  if (predictions.labels.empty()) return {};
  const auto labels = rows_of(predictions.labels, predictions.rows);
  const TagLists tags = named_tags(labels, predicted_rows(predictions), names);
  return as_metrics(entity_metrics(tags.labels, tags.predictions, by_type));
}

// predictions.txt: the tags of a row in a line, one a word.
void write_tags(const std::filesystem::path& directory, const Predictions& predictions,
                std::span<const std::vector<int64_t>> labels, const std::vector<std::string>& names) {
  std::string text;
  for (const auto& tags : named_tags(labels, predicted_rows(predictions), names).predictions)
    text += fmt::format("{}\n", fmt::join(tags, " "));
  write_file(directory / "predictions.txt", text);
}

// The labels of the data; none where it has no tags.
Labels labels_of(const Dataset& data, const TokenColumns& columns, const TrainArguments& arguments,
                 LoadOptions& options, bool training) {
  Labels labels(LabelKind::kMultiLabel, {});
  if (columns.tags) labels = Labels::of(data, *columns.tags);
  else require(!training, "{}: expected a column of tags to train on; name it with --label_column_name", data.where(0));
  if (columns.tags)
    match_to_model(labels, arguments, training,
                   fmt::format("{}, column '{}'", data.name(), data.columns()[*columns.tags].name), options);
  return labels;
}

// A model that reads where words stand would take all of them to stand in the first corner of the page.
void refuse_boxes(const Dataset& data, const Model& model) {
  for (const FamilyInput& input : inputs_of(model))
    if (input.name == "bbox" && data.find("bboxes"))
      fail(ErrorKind::kUnsupported,
           "{}: a column of boxes, 'bboxes', which are not carried out in training: {} would read the words without "
           "them; remove the column to train so",
           data.name(), model.architecture());
}

}  // namespace

void prepare_token_classification(const TrainArguments& arguments, const TaskFiles& files, TaskSetup& setup) {
  const ScriptArguments& script = arguments.script;
  LoadOptions options = load_options(arguments, "token-classification");
  const Dataset any = with_token_lists(files.with_all_classes(), script);
  const TokenColumns columns = token_columns(any, script);
  Labels labels = labels_of(any, columns, arguments, options, files.train.has_value());
  std::vector<std::string> parts = {column_part("tokens", any, columns.tokens)};
  if (columns.tags)
    parts.push_back(fmt::format("{}, {}", column_part("tags", any, *columns.tags), classes_text(labels)));
  setup.reads = what_is_read(parts, files);
  setup.model = load_model(arguments, script.model_name_or_path, options);
  refuse_boxes(any, *setup.model);
  if (labels.names().empty()) labels = Labels(labels.kind(), setup.model->labels());
  const std::vector<std::string> names = labels.names();
  TokenizerOptions of_words;
  if (const Family* family = find_family(setup.model->config()); family && *family->processors.spaced_words)
    of_words.add_prefix_space = true;
  const TextEncoder encoder(arguments, *setup.model, std::nullopt, of_words);
  if (files.train) setup.train = tokenise_words(*files.train, encoder, labels, arguments);
  if (files.validation) setup.validation = tokenise_words(*files.validation, encoder, labels, arguments);
  // With return_entity_level_metrics they are those of the kinds of entities that are found.
  if (!script.return_entity_level_metrics) setup.metric_names = {"precision", "recall", "f1", "accuracy"};
  setup.preprocess_outputs = predicted_classes;
  setup.compute_metrics = [names, by_type = script.return_entity_level_metrics](const Predictions& predictions) {
    return metrics_of(predictions, names, by_type);
  };
  if (files.test) {
    setup.test = tokenise_words(*files.test, encoder, labels, arguments);
    const Dataset test = with_token_lists(*files.test, script);
    setup.write_predictions = [=, metrics = setup.compute_metrics, columns = token_columns(test, script),
                               label_all = script.label_all_tokens](const Predictions& predictions,
                                                                    const std::filesystem::path& directory) {
      const auto rows = map_rows(
          test.size(), [&](int64_t i) { return encode_row(test, i, columns, encoder, labels, label_all).labels; });
      write_tags(directory, predictions, rows, names);
      return metrics(predictions);
    };
  }
  encoder.save_into(setup);
}

}  // namespace transom
