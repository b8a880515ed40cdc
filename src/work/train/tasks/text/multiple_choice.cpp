// SPDX-License-Identifier: Apache-2.0
#include "base/error.h"
#include "base/files/files.h"
#include "work/train/metrics/metrics.h"
#include "work/train/tasks/read_report.h"
#include "work/train/tasks/tasks.h"
#include "work/train/tasks/text/text_features.h"

namespace transom {
namespace {

struct Choices {
  std::vector<Features> rows;  // one an ending
  std::optional<int64_t> label;
};

Choices encode_choices(const Dataset& data, int64_t i, const ChoiceColumns& columns, const TextEncoder& encoder) {
  const Row row = data.row(i);
  const std::string context = text_of(data, i, row, columns.context),
                    beginning = text_of(data, i, row, columns.beginning);
  Choices choices;
  for (const size_t ending : columns.endings)
    choices.rows.push_back(encoder.features(
        encoder.encode(context, beginning + " " + text_of(data, i, row, ending),
                       {.truncation = Truncation::kLongestFirst, .max_length = encoder.max_length()})));
  if (!columns.label) return choices;
  const Value& label = row[*columns.label];
  const std::string where = fmt::format("{}, column 'label'", data.where(i));
  require_label(label, where);
  const auto count = static_cast<int64_t>(columns.endings.size());
  const auto* whole = std::get_if<int64_t>(&label);
  const auto* real = std::get_if<double>(&label);  // of a column in which another label is missing
  choices.label = whole                                                      ? *whole
                  : real && *real >= 0 && *real < static_cast<double>(count) ? static_cast<int64_t>(*real)
                                                                             : -1;
  require(*choices.label >= 0 && *choices.label < count && (!real || static_cast<double>(*choices.label) == *real),
          "{}: expected the number of an ending below {}, found {}", where, count, transom::quoted(label_name(label)));
  return choices;
}

Dataset with_choices(const Dataset& data) {
  const ChoiceColumns columns = choice_columns(data);
  Dataset result = data.with_text(columns.context).with_text(columns.beginning);
  for (const size_t ending : columns.endings) result = result.with_text(ending);
  return result;
}

TrainingData tokenise_choices(const Dataset& given, const TextEncoder& encoder) {
  const ChoiceColumns columns = choice_columns(given);
  const Dataset data = with_choices(given);
  auto all = std::make_shared<const std::vector<Choices>>(
      map_rows(data.size(), [&](int64_t i) { return encode_choices(data, i, columns, encoder); }));
  TrainingData result;
  result.rows = data.size();
  for (const Choices& choices : *all) {
    size_t longest = 0;
    for (const Features& row : choices.rows) longest = std::max(longest, row.sequences.at("input_ids").size());
    result.lengths.push_back(static_cast<int64_t>(longest));
  }
  result.batch = [all, padding = encoder.padding(),
                  count = static_cast<int64_t>(columns.endings.size())](const std::vector<int64_t>& indices) {
    std::vector<Features> rows;
    std::vector<int64_t> labels;
    for (const int64_t index : indices) {
      const Choices& choices = (*all)[static_cast<size_t>(index)];
      rows.insert(rows.end(), choices.rows.begin(), choices.rows.end());
      if (choices.label) labels.push_back(*choices.label);
    }
    Batch batch = collate(rows, padding);
    batch.choices = count;
    batch.labels = std::move(labels);
    return batch;
  };
  return result;
}

}  // namespace

void prepare_multiple_choice(const TrainArguments& arguments, const TaskFiles& files, TaskSetup& setup) {
  for (const auto* data : {&files.train, &files.validation, &files.test})
    if (*data) with_choices(**data);
  setup.reads =
      what_is_read({"text: columns sent1 and sent2",
                    fmt::format("choices: {}", counted(choice_columns(files.any()).endings.size(), "ending"))},
                   files);
  setup.model = load_model(arguments, arguments.script.model_name_or_path, load_options(arguments, "multiple-choice"));
  const TextEncoder encoder(arguments, *setup.model, std::nullopt);
  if (files.train) setup.train = tokenise_choices(*files.train, encoder);
  if (files.validation) setup.validation = tokenise_choices(*files.validation, encoder);
  if (files.test) setup.test = tokenise_choices(*files.test, encoder);
  setup.metric_names = {"accuracy"};
  setup.compute_metrics = [](const Predictions& predictions) -> Metrics {
    const Predictions::Array& logits = *find_output(predictions, "logits");
    if (predictions.labels.empty()) return {};
    return {{"accuracy", accuracy(predictions.labels, largest(logits.values, logits.shape[1]))}};
  };
  setup.write_predictions = [metrics = setup.compute_metrics](const Predictions& predictions,
                                                              const std::filesystem::path& directory) {
    const Predictions::Array& logits = *find_output(predictions, "logits");
    std::string text = "index\tprediction\n";
    const std::vector<int64_t> chosen = largest(logits.values, logits.shape[1]);
    for (size_t i = 0; i < chosen.size(); ++i) text += fmt::format("{}\t{}\n", i, chosen[i]);
    write_file(directory / "predict_results.txt", text);
    return metrics(predictions);
  };
  encoder.save_into(setup);
}

}  // namespace transom
