// SPDX-License-Identifier: Apache-2.0
// Click logs for DLRM: rows of a label, dense numbers and categories, in this order, as those of Criteo. Counts enter
// as log(1 + x), as in facebookresearch/dlrm; categories are rows of their tables.
#include <algorithm>
#include <charconv>
#include <cmath>

#include "base/error.h"
#include "files/config/config.h"
#include "inputs/data/columns.h"
#include "work/train/metrics/metrics.h"
#include "work/train/tasks/read_report.h"
#include "work/train/tasks/tasks.h"
#include "work/train/tasks/text/text_features.h"

namespace transom {
namespace {

struct ClickLog {
  Dataset data;
  std::optional<size_t> label;
  std::vector<size_t> dense, categories;  // columns
  std::vector<bool> counts;               // of `dense`: whole numbers alone
  std::vector<int64_t> table_rows;
  int64_t max_ind_range;
};

double number_of(const Value& value, const std::string& where) {
  if (const auto* whole = std::get_if<int64_t>(&value)) return static_cast<double>(*whole);
  if (const auto* real = std::get_if<double>(&value)) return std::isnan(*real) ? 0 : *real;
  if (const auto* flag = std::get_if<bool>(&value)) return *flag ? 1 : 0;
  if (std::holds_alternative<std::monostate>(value)) return 0;  // missing
  fail("{}: expected a number", where);
}

// A category by its number: itself, hexadecimal digits (as Criteo's are), or any other text by the FNV-1a hash.
uint64_t category_number(const std::string& text) {
  uint64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number, 16);
  if (error == std::errc() && end == text.data() + text.size()) return number;
  number = 0xCBF29CE484222325u;
  for (const char c : text) number = (number ^ static_cast<unsigned char>(c)) * 0x100000001B3u;
  return number;
}

int64_t table_row(const ClickLog& log, const Value& value, size_t table, const std::string& where) {
  const auto rows = static_cast<uint64_t>(log.table_rows[table]);
  if (const auto* text = std::get_if<std::string>(&value)) {
    const uint64_t number = text->empty() ? 0 : category_number(*text);
    return static_cast<int64_t>((log.max_ind_range > 0 ? number % static_cast<uint64_t>(log.max_ind_range) : number) %
                                rows);
  }
  const double number = number_of(value, where);
  auto row = static_cast<int64_t>(number);
  if (static_cast<double>(row) != number) fail("{}: expected a category, found {}", where, number);
  if (log.max_ind_range > 0) row = (row % log.max_ind_range + log.max_ind_range) % log.max_ind_range;
  if (row < 0 || row >= log.table_rows[table])
    fail("{}: category {} is not a row of its table, which has {}; --max_ind_range {} takes categories modulo that",
         where, row, rows, rows);
  return row;
}

ClickLog click_log(const Dataset& data, const Config& config, const ScriptArguments& script) {
  ClickLog log{data, {}, {}, {}, {}, config.get_ints("arch_embedding_size"), script.max_ind_range};
  const auto dense = static_cast<size_t>(config.get_ints("arch_mlp_bot", {0})[0]);
  log.label =
      script.label_column_name ? need_column(data, *script.label_column_name, "label_column_name") : data.find("label");
  const size_t features = dense + log.table_rows.size();
  if (!log.label && data.columns().size() == features + 1) log.label = 0;
  for (size_t column = 0; column < data.columns().size(); ++column)
    if (column != log.label) (log.dense.size() < dense ? log.dense : log.categories).push_back(column);
  if (log.dense.size() + log.categories.size() != features)
    fail("{}: expected {} columns of numbers and {} of categories beside the label, found {} columns", data.name(),
         dense, log.table_rows.size(), log.dense.size() + log.categories.size());
  log.counts.assign(dense, true);
  for (int64_t row = 0; row < data.size(); ++row) {
    const Row values = data.row(row);
    for (size_t i = 0; i < dense; ++i) {
      const double x = number_of(values[log.dense[i]], data.where(row));
      if (x != std::floor(x)) log.counts[i] = false;
    }
  }
  return log;
}

TrainingData clicks_of(ClickLog given, std::vector<bool> counts) {
  given.counts = std::move(counts);
  const auto log = std::make_shared<const ClickLog>(std::move(given));
  TrainingData result;
  result.rows = log->data.size();
  result.batch = [log](const std::vector<int64_t>& rows) {
    const auto B = static_cast<int64_t>(rows.size()), tables = static_cast<int64_t>(log->table_rows.size());
    Batch batch;
    FloatRows& dense = batch.arrays["dense_x"];
    dense.shape = {B, static_cast<int64_t>(log->dense.size())};
    for (const int64_t row : rows) {
      const Row values = log->data.row(row);
      const std::string where = log->data.where(row);
      for (size_t i = 0; i < log->dense.size(); ++i) {
        const double x = number_of(values[log->dense[i]], where);
        dense.values.push_back(static_cast<float>(log->counts[i] ? std::log(1 + std::max(x, 0.0)) : x));
      }
      for (size_t table = 0; table < log->categories.size(); ++table)
        batch.numbers["lS_i." + std::to_string(table)].push_back(
            table_row(*log, values[log->categories[table]], table, where));
      if (!log->label) continue;
      require_label(values[*log->label], fmt::format("{}, column '{}'", where, log->data.columns()[*log->label].name));
      batch.label_values.push_back(static_cast<float>(number_of(values[*log->label], where)));
    }
    // One category a bag: bag b begins at b.
    PaddedRows& offsets = batch.sequences["lS_o"];
    offsets.rows = tables, offsets.length = B;
    for (int64_t table = 0; table < tables; ++table)
      for (int64_t b = 0; b < B; ++b) offsets.values.push_back(b);
    return batch;
  };
  return result;
}

Metrics click_metrics(const Predictions& predictions) {
  const Predictions::Array* found = find_output(predictions, "probabilities");
  if (!found || predictions.label_values.empty()) return {};
  const std::vector<double> scores(found->values.begin(), found->values.end());
  std::vector<int64_t> labels, clicks;
  for (const float label : predictions.label_values) labels.push_back(label > 0.5F);
  for (const double score : scores) clicks.push_back(score > 0.5);
  return {{"accuracy", accuracy(labels, clicks)}, {"roc_auc", roc_auc(labels, scores)}};
}

}  // namespace

void prepare_click_prediction(const TrainArguments& arguments, const TaskFiles& files, TaskSetup& setup) {
  const ScriptArguments& script = arguments.script;
  setup.model = load_model(arguments, script.model_name_or_path, load_options(arguments, "click-prediction"));
  const Config& config = setup.model->config();
  std::optional<ClickLog> train, validation;
  if (files.train) train = click_log(*files.train, config, script);
  if (files.validation) validation = click_log(*files.validation, config, script);
  const std::optional<ClickLog>& any = train ? train : validation;
  if (any)
    setup.reads = what_is_read(
        {any->label ? column_part("label", any->data, *any->label) : "no label",
         fmt::format("{} of numbers, {} of categories", counted(any->dense.size(), "column"), any->categories.size())},
        files);
  // What is a count is for the rows that are trained to say.
  const std::vector<bool> counts = train ? train->counts : validation ? validation->counts : std::vector<bool>();
  if (train) setup.train = clicks_of(std::move(*train), counts);
  if (validation) setup.validation = clicks_of(std::move(*validation), counts);
  setup.compute_metrics = click_metrics;
  setup.metric_names = {"accuracy", "roc_auc"};
}

}  // namespace transom
