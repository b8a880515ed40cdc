// SPDX-License-Identifier: Apache-2.0
#include "base/error.h"
#include "base/files/files.h"
#include "train/metrics/metrics.h"
#include "train/tasks/tasks.h"
#include "train/tasks/text_features.h"

namespace transom {
namespace {

constexpr int64_t kDefaultLength = 128;  // run_classification's max_seq_length

TrainingData tokenise(const Dataset& data, const TextEncoder& encoder, const std::optional<Labels>& labels,
                      const TrainArguments& arguments) {
  const ClassificationColumns columns = classification_columns(data, arguments.script);
  const EncodeOptions options{.truncation = Truncation::kLongestFirst, .max_length = encoder.max_length()};
  return text_rows(
      data, arguments, encoder.padding(),
      [data, encoder, labels, columns, options, delimiter = arguments.script.text_column_delimiter](int64_t i) {
        const Row row = data.row(i);
        std::string first = text_of(row[columns.text[0]]);
        std::optional<std::string> second;
        if (columns.joined) {
          for (size_t k = 1; k < columns.text.size(); ++k) first += delimiter + text_of(row[columns.text[k]]);
        } else if (columns.text.size() > 1) {
          second = text_of(row[columns.text[1]]);
        }
        Features features = encoder.features(encoder.tokenizer().encode(
            first, second ? std::optional<std::string_view>(*second) : std::nullopt, options));
        if (!columns.label || !labels) return features;
        const Value& label = row[*columns.label];
        const std::string where = fmt::format("{}, column '{}'", data.where(i), data.columns()[*columns.label].name);
        require_label(label, where);
        if (labels->kind() == LabelKind::kClasses) features.label = labels->id(label, where);
        else if (labels->kind() == LabelKind::kMultiLabel) features.label_values = labels->indicators(label, where);
        else if (const auto* real = std::get_if<double>(&label)) features.label_values = {static_cast<float>(*real)};
        else if (const auto* whole = std::get_if<int64_t>(&label)) features.label_values = {static_cast<float>(*whole)};
        else fail("{}: expected a number as the label", where);
        return features;
      });
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
  const ClassificationColumns columns = classification_columns(files.any(), script);
  if (files.train) need_label(classification_columns(*files.train, script), *files.train);
  LoadOptions options = load_options(arguments, "text-classification");
  std::optional<Labels> labels;
  if (columns.label) labels = Labels::of(files.with_all_classes(), *columns.label, script.do_regression);
  if (labels && labels->kind() == LabelKind::kRegression) {
    options.num_labels = 1;
    options.problem_type = "regression";
  } else if (labels) {
    name_classes(*labels, arguments, files.train.has_value(), options);
    if (labels->kind() == LabelKind::kMultiLabel) options.problem_type = "multi_label_classification";
    else if (files.train) options.problem_type = "single_label_classification";
  }
  setup.model = load_model(arguments, script.model_name_or_path, options);
  const TextEncoder encoder(arguments, *setup.model, kDefaultLength);
  if (files.train) setup.train = tokenise(*files.train, encoder, labels, arguments);
  if (files.validation) setup.validation = tokenise(*files.validation, encoder, labels, arguments);
  // The labels of rows to predict are left aside, as the scripts do.
  if (files.test) setup.test = tokenise(*files.test, encoder, std::nullopt, arguments);
  setup.write_predictions = [kind = labels ? labels->kind() : LabelKind::kClasses, names = setup.model->labels(),
                             task = script.task_name](const Predictions& predictions,
                                                      const std::filesystem::path& directory) -> Metrics {
    write_results(directory, task, kind, names, predictions);
    return {};
  };
  encoder.save_into(setup);
}

}  // namespace transom
