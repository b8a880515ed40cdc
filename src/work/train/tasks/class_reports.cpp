// SPDX-License-Identifier: Apache-2.0
#include "work/train/tasks/class_reports.h"

#include <algorithm>
#include <optional>

#include "base/error.h"
#include "base/files/files.h"
#include "base/terminal/log.h"
#include "inputs/data/text/token_labels.h"
#include "models/records.h"
#include "transom/distributed.h"
#include "work/train/metrics/class_report.h"
#include "work/train/tasks/text/text_features.h"

namespace transom {
namespace {

struct LastClasses {
  std::string text, picture;
};

// Of rows with a class each.
std::optional<LastClasses> classes_of_rows(const Predictions& predictions, const std::vector<std::string>& names) {
  const Predictions::Array* logits = find_output(predictions, "logits");
  if (!logits || logits->shape.size() != 2 || logits->shape[1] != static_cast<int64_t>(names.size()) ||
      static_cast<int64_t>(predictions.labels.size()) != predictions.rows || predictions.labels.empty())
    return std::nullopt;
  ConfusionTable table(names);
  const auto width = static_cast<std::ptrdiff_t>(names.size());
  for (int64_t row = 0; row < predictions.rows; ++row) {
    const auto scores = logits->values.begin() + row * width;
    table.add(predictions.labels[static_cast<size_t>(row)], std::max_element(scores, scores + width) - scores);
  }
  return LastClasses{table.text(), table.picture()};
}

// Of tokens: entities in the table, tags in the picture.
std::optional<LastClasses> classes_of_tokens(const Predictions& predictions, const std::vector<std::string>& names) {
  const Predictions::Array* found = find_output(predictions, "predictions");
  if (!found || predictions.rows == 0 || found->values.size() != predictions.labels.size()) return std::nullopt;
  const size_t width = found->values.size() / static_cast<size_t>(predictions.rows);
  ConfusionTable table(names);
  std::vector<std::vector<int64_t>> labels, tags;
  for (size_t row = 0; row < static_cast<size_t>(predictions.rows); ++row) {
    const auto begin = static_cast<std::ptrdiff_t>(row * width), end = begin + static_cast<std::ptrdiff_t>(width);
    labels.emplace_back(predictions.labels.begin() + begin, predictions.labels.begin() + end);
    tags.emplace_back(found->values.begin() + begin, found->values.begin() + end);
    for (size_t i = 0; i < width; ++i) table.add(labels.back()[i], tags.back()[i]);
  }
  const TagLists named = named_tags(labels, tags, names);
  return LastClasses{entity_report(named.labels, named.predictions), table.picture()};
}

}  // namespace

void add_class_report(const TrainArguments& arguments, TaskSetup& setup) {
  const Architecture* known = find_architecture(*setup.model);
  if (!known || !setup.compute_metrics || setup.complete_evaluation || setup.objective || process_rank() > 0) return;
  const HeadTask task = *known->head.task;
  const bool of_tokens = task == HeadTask::kTokenClassification;
  if (!of_tokens && task != HeadTask::kSequenceClassification && task != HeadTask::kImageClassification &&
      task != HeadTask::kAudioClassification)
    return;
  const std::vector<std::string> names = setup.model->labels();
  if (names.size() < 2) return;
  const auto last = std::make_shared<std::optional<LastClasses>>();
  setup.compute_metrics = [last, names, of_tokens, own = setup.compute_metrics](const Predictions& predictions) {
    *last = of_tokens ? classes_of_tokens(predictions, names) : classes_of_rows(predictions, names);
    return own(predictions);
  };
  setup.complete_evaluation = [last, json = arguments.script.json,
                               folder = fs::path(arguments.training.output_dir)](Metrics&) {
    if (!*last) return;
    write_file(folder / "confusion_matrix.svg", (*last)->picture);
    if (!json) log(LogLevel::kInfo, "each class:\n" + (*last)->text);
  };
}

}  // namespace transom
