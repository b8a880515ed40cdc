// SPDX-License-Identifier: Apache-2.0
#include "work/train/metrics/class_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "base/terminal/display.h"
#include "work/train/metrics/metrics.h"

namespace transom {
namespace {

constexpr size_t kMostClassesShown = 40, kMostLetters = 24;
constexpr double kCell = 28, kLetter = 7, kMargin = 16, kHeading = 56;

// No more letters than a column has room for; what is cut are whole bytes of UTF-8.
std::string shortened_name(const std::string& name) {
  size_t letters = 0, bytes = 0;
  for (; bytes < name.size(); ++bytes) {
    const bool begins = (static_cast<unsigned char>(name[bytes]) & 0xC0) != 0x80;
    if (begins && letters++ == kMostLetters) return name.substr(0, bytes) + "…";
  }
  return name;
}

struct ReportRow {
  std::string name;
  PrecisionRecall scores;
  int64_t number = 0;
};

std::string header_of_report() {
  return fmt::format("{:<26} {:>9} {:>9} {:>9} {:>9}\n", "class", "precision", "recall", "f1", "number");
}

std::string line_of_report(const ReportRow& row) {
  return fmt::format("{:<26} {:>9.4f} {:>9.4f} {:>9.4f} {:>9}\n", shortened_name(row.name), row.scores.precision,
                     row.scores.recall, row.scores.f1, row.number);
}

// The mean of all classes, each counting alike or by its number.
std::string mean_of_report(const char* name, const std::vector<ReportRow>& rows, bool by_number) {
  ReportRow mean{name, {}, 0};
  double weights = 0;
  for (const ReportRow& row : rows) {
    const double weight = by_number ? static_cast<double>(row.number) : 1;
    mean.scores.precision += weight * row.scores.precision;
    mean.scores.recall += weight * row.scores.recall;
    mean.scores.f1 += weight * row.scores.f1;
    mean.number += row.number, weights += weight;
  }
  for (double* each : {&mean.scores.precision, &mean.scores.recall, &mean.scores.f1})
    *each = weights > 0 ? *each / weights : 0;
  return line_of_report(mean);
}

}  // namespace

ConfusionTable::ConfusionTable(std::vector<std::string> names)
    : names_(std::move(names)), actual_(names_.size()), predicted_(names_.size()) {}

void ConfusionTable::add(int64_t label, int64_t prediction) {
  const auto classes = static_cast<int64_t>(names_.size());
  if (label < 0 || label >= classes || prediction < 0 || prediction >= classes) return;
  ++counts_[{static_cast<size_t>(label), static_cast<size_t>(prediction)}];
  ++actual_[static_cast<size_t>(label)];
  ++predicted_[static_cast<size_t>(prediction)];
}

int64_t ConfusionTable::total() const { return std::accumulate(actual_.begin(), actual_.end(), int64_t{0}); }

int64_t ConfusionTable::count(size_t label, size_t prediction) const {
  const auto found = counts_.find({label, prediction});
  return found == counts_.end() ? 0 : found->second;
}

std::string ConfusionTable::text() const {
  std::vector<ReportRow> rows;
  int64_t right = 0;
  for (size_t k = 0; k < names_.size(); ++k) {
    if (actual_[k] + predicted_[k] == 0) continue;
    right += count(k, k);
    rows.push_back({names_[k], precision_recall_f1(count(k, k), predicted_[k], actual_[k]), actual_[k]});
  }
  std::string text = header_of_report();
  for (const ReportRow& row : rows) text += line_of_report(row);
  const int64_t all = total();
  text += fmt::format("{:<26} {:>29.4f} {:>9}\n", "accuracy",
                      all > 0 ? static_cast<double>(right) / static_cast<double>(all) : 0.0, all);
  return text + mean_of_report("macro average", rows, false) + mean_of_report("weighted average", rows, true);
}

std::string ConfusionTable::picture() const {
  std::vector<size_t> shown(names_.size());
  std::iota(shown.begin(), shown.end(), size_t{0});
  std::stable_sort(shown.begin(), shown.end(), [&](size_t a, size_t b) { return actual_[a] > actual_[b]; });
  const size_t left_out = shown.size() - std::min(shown.size(), kMostClassesShown);
  shown.resize(shown.size() - left_out);
  std::sort(shown.begin(), shown.end());
  size_t longest = 0;
  for (const size_t k : shown) longest = std::max(longest, std::min(names_[k].size(), kMostLetters));
  const double label_width = kMargin + kLetter * static_cast<double>(longest + 1),
               side = kCell * static_cast<double>(shown.size());
  const double top = kHeading + kLetter * static_cast<double>(longest + 1), width = label_width + side + kMargin,
               height = top + side + kMargin;
  std::string svg = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {0:.0f} {1:.0f}\" font-family=\"sans-serif\" "
      "font-size=\"11\">\n<style>text{{fill:#444}}@media(prefers-color-scheme:dark){{text{{fill:#ccc}}}}</style>\n",
      std::max(width, 320.0), height);
  svg += fmt::format("<text x=\"{}\" y=\"20\">rows: labels; columns: predictions; shades: shares of a row{}</text>\n",
                     kMargin, left_out > 0 ? fmt::format("; the {} rarest classes are left out", left_out) : "");
  for (size_t i = 0; i < shown.size(); ++i) {
    const double at = kCell * static_cast<double>(i) + kCell / 2;
    const std::string name = escaped(shortened_name(names_[shown[i]]));
    svg += fmt::format("<text x=\"{:.0f}\" y=\"{:.0f}\" text-anchor=\"end\">{}</text>\n", label_width - 6, top + at + 4,
                       name);
    svg += fmt::format("<text transform=\"translate({:.0f} {:.0f}) rotate(-90)\">{}</text>\n", label_width + at + 4,
                       top - 6, name);
    const double all = static_cast<double>(std::max<int64_t>(actual_[shown[i]], 1));
    for (size_t j = 0; j < shown.size(); ++j) {
      const int64_t n = count(shown[i], shown[j]);
      const double x = label_width + kCell * static_cast<double>(j), y = top + kCell * static_cast<double>(i);
      svg += fmt::format(
          "<rect x=\"{:.0f}\" y=\"{:.0f}\" width=\"{:.0f}\" height=\"{:.0f}\" fill=\"{}\" fill-opacity=\"{:.3f}\"/>", x,
          y, kCell - 1, kCell - 1, i == j ? "#2563eb" : "#d97706", n == 0 ? 0.04 : 0.12 + 0.88 * n / all);
      if (n > 0)
        svg += fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"middle\" font-size=\"9\">{}</text>\n",
                           x + kCell / 2, y + kCell / 2 + 3, n);
    }
  }
  return svg + "</svg>\n";
}

std::string entity_report(const TagRows& labels, const TagRows& predictions) {
  const LogRecord record = entity_metrics(labels, predictions, /*by_type=*/true);
  const auto value = [&](const std::string& name) { return find_number(record, name).value_or(0); };
  constexpr std::string_view kNumber = "_number";
  std::vector<ReportRow> rows;
  for (const auto& [name, ignored] : record) {
    if (!name.ends_with(kNumber)) continue;
    const std::string type = name.substr(0, name.size() - kNumber.size());
    rows.push_back({type,
                    {value(type + "_precision"), value(type + "_recall"), value(type + "_f1")},
                    static_cast<int64_t>(value(name))});
  }
  std::string text = header_of_report();
  int64_t all = 0;
  for (const ReportRow& row : rows) text += line_of_report(row), all += row.number;
  return text + line_of_report(
                    {"all entities", {value("overall_precision"), value("overall_recall"), value("overall_f1")}, all});
}

}  // namespace transom
