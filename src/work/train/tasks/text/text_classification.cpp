// SPDX-License-Identifier: Apache-2.0
#include "base/error.h"
#include "base/files/files.h"
#include "base/terminal/log.h"
#include "inputs/data/class_names.h"
#include "work/train/metrics/metrics.h"
#include "work/train/tasks/model_classes.h"
#include "work/train/tasks/read_report.h"
#include "work/train/tasks/tasks.h"
#include "work/train/tasks/text/text_features.h"

namespace transom {
namespace {

constexpr int64_t kDefaultLength = 128;  // run_classification's max_seq_length

TrainingData tokenise(const Dataset& given, const ClassificationColumns& columns, const TextEncoder& encoder,
                      const std::optional<Labels>& labels, const TrainArguments& arguments) {
  Dataset data = given;
  for (const size_t column : columns.text) data = data.with_text(column);
  const EncodeOptions options{.truncation = Truncation::kLongestFirst, .max_length = encoder.max_length()};
  return text_rows(
      data, arguments, encoder.padding(),
      [data, encoder, labels, columns, options, delimiter = arguments.script.text_column_delimiter](int64_t i) {
        const Row row = data.row(i);
        const auto text = [&](size_t k) { return text_of(data, i, row, columns.text[k]); };
        std::string first = text(0);
        std::optional<std::string> second;
        if (columns.joined)
          for (size_t k = 1; k < columns.text.size(); ++k) first += delimiter + text(k);
        else if (columns.text.size() > 1) second = text(1);
        Features features = encoder.features(encoder.encode(first, second, options));
        if (!columns.label || !labels) return features;
        const Value& label = row[*columns.label];
        const std::string where = fmt::format("{}, column '{}'", data.where(i), data.columns()[*columns.label].name);
        require_label(label, where);
        if (labels->kind() == LabelKind::kClasses) features.label = labels->id(label, where);
        else if (labels->kind() != LabelKind::kRegression) features.label_values = labels->indicators(label, where);
        else if (const auto* real = std::get_if<double>(&label)) features.label_values = {static_cast<float>(*real)};
        else if (const auto* whole = std::get_if<int64_t>(&label)) features.label_values = {static_cast<float>(*whole)};
        else fail("{}: expected a number as the label", where);
        return features;
      });
}

// The labels of all rows, as the model is to give them.
Labels sequence_labels(const TaskFiles& files, size_t column, const TrainArguments& arguments, LoadOptions& options) {
  const Dataset& data = files.with_all_classes();
  const ModelClasses model = classes_of_model(arguments.script.model_name_or_path);
  const ColumnType type = data.columns()[column].type;
  const bool training = files.train.has_value();
  std::optional<bool> regression = arguments.script.do_regression;
  // A model of one number says what whole numbers are.
  if (!training && !regression && model.gives_one_number() && type == ColumnType::kInt) regression = true;
  Labels labels = Labels::of(data, column, regression);
  const std::string where = fmt::format("{}, column '{}'", data.name(), data.columns()[column].name);
  if (type == ColumnType::kInts && look_like_indicators(data, column))
    log(LogLevel::kWarning,
        fmt::format("{}: lists of 0 and 1 are read as lists of the classes 0 and 1, as in run_classification; where "
                    "they are a column a class, write 0.0 and 1.0",
                    where));
  const auto& names = labels.names();
  if (type == ColumnType::kString &&
      std::all_of(names.begin(), names.end(), [](const auto& name) { return name[0] == '[' && name.back() == ']'; }))
    fail("{}: expected labels, found lists that are written as text; several labels at once are lists of JSON lines",
         where);
  if (labels.kind() != LabelKind::kRegression) {
    if (!training && model.gives_one_number())
      fail("{}: expected numbers as labels, since the model gives one number, found {}", where, column_type_name(type));
    const bool one = labels.kind() == LabelKind::kClasses;
    if (!training && model.has_head && (one ? model.several_at_once : model.one_at_once))
      fail("{}: expected {}, found {}", where,
           one ? "a list of labels in each row, since the model gives several at once"
               : "one label in each row, since the model gives one class",
           one ? "one label" : "lists");
    match_to_model(labels, arguments, training, where, options);
    if (labels.kind() != LabelKind::kClasses) options.problem_type = "multi_label_classification";
    else if (training) options.problem_type = "single_label_classification";
    return labels;
  }
  if (model.has_head && !model.gives_one_number() && !arguments.script.ignore_mismatched_sizes)
    fail("{}: its labels are numbers to be found (a regression), and the model has {} ({}); {}", where,
         counted(model.names.size(), "class"), listed_names(model.names),
         training ? "--ignore_mismatched_sizes gives it a new head"
                  : "--do_regression false where they are the numbers of classes");
  options.num_labels = 1;
  options.problem_type = "regression";
  return labels;
}

// What a model gives where no labels say it.
LabelKind kind_of_model(const std::string& directory) {
  const ModelClasses model = classes_of_model(directory);
  if (model.gives_one_number()) return LabelKind::kRegression;
  return model.several_at_once ? LabelKind::kMultiLabel : LabelKind::kClasses;
}

// predict_results.txt: a line a row, with a number, the name of a class, or a list of names.
void write_results(const std::filesystem::path& directory, const std::optional<std::string>& task, LabelKind kind,
                   const std::vector<std::string>& names, const Predictions& predictions) {
  const Predictions::Array& logits = *find_output(predictions, "logits");
  const int64_t width = logits.shape.back();
  std::string text = "index\tprediction\n";
  for (int64_t row = 0; row < predictions.rows; ++row) {
    const float* scores = logits.values.data() + row * width;
    if (kind == LabelKind::kRegression) {
      text += fmt::format("{}\t{:.3f}\n", row, scores[0]);
    } else if (kind == LabelKind::kClasses) {
      const auto best = static_cast<size_t>(std::max_element(scores, scores + width) - scores);
      text += fmt::format("{}\t{}\n", row, names.at(best));
    } else {
      std::vector<std::string> chosen;
      for (int64_t k = 0; k < width; ++k)
        if (scores[k] > 0) chosen.push_back(fmt::format("'{}'", names.at(static_cast<size_t>(k))));
      text += fmt::format("{}\t[{}]\n", row, fmt::join(chosen, ", "));
    }
  }
  write_file(directory / (task ? fmt::format("predict_results_{}.txt", *task) : "predict_results.txt"), text);
}

}  // namespace

void prepare_text_classification(const TrainArguments& arguments, const TaskFiles& files, TaskSetup& setup) {
  const ScriptArguments& script = arguments.script;
  const Dataset& any = files.any();
  const ClassificationColumns columns = classification_columns(any, script);
  if (files.train) need_label(columns, any);
  for (const auto* data : {&files.train, &files.validation, &files.test})
    if (*data)
      for (const size_t column : same_columns(columns, any, **data).text) (*data)->with_text(column);
  LoadOptions options = load_options(arguments, "text-classification");
  std::optional<Labels> labels;
  // The labels of rows to predict are left aside, as the scripts do.
  if (columns.label && (files.train || files.validation))
    labels = sequence_labels(files, *columns.label, arguments, options);
  if (labels) {
    const MetricKind kind = labels->kind() == LabelKind::kRegression ? MetricKind::kRegression
                            : labels->kind() == LabelKind::kClasses  ? MetricKind::kClasses
                                                                     : MetricKind::kMultiLabel;
    expect_metric(kind, script.metric_name);
    setup.metric_names = metric_names(kind, script.task_name, script.metric_name);
  }
  std::vector<std::string> parts = {columns_part(any, columns.text, columns.joined)};
  if (labels) parts.push_back(label_part(any, *columns.label, *labels));
  setup.reads = what_is_read(parts, files);
  setup.model = load_model(arguments, script.model_name_or_path, options);
  const TextEncoder encoder(arguments, *setup.model, kDefaultLength);
  const auto rows = [&](const Dataset& data, const std::optional<Labels>& known) {
    return tokenise(data, same_columns(columns, any, data), encoder, known, arguments);
  };
  if (files.train) setup.train = rows(*files.train, labels);
  if (files.validation) setup.validation = rows(*files.validation, labels);
  if (files.test) setup.test = rows(*files.test, std::nullopt);
  setup.write_predictions = [kind = labels ? labels->kind() : kind_of_model(script.model_name_or_path),
                             names = setup.model->labels(), task = script.task_name](
                                const Predictions& predictions, const std::filesystem::path& directory) -> Metrics {
    write_results(directory, task, kind, names, predictions);
    return {};
  };
  encoder.save_into(setup);
}

}  // namespace transom
