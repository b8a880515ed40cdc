// SPDX-License-Identifier: Apache-2.0
// transom models: the architectures, their tasks, and which of their cases pass.
#include <algorithm>
#include <cstdio>

#include "base/error.h"
#include "base/json/json.h"
#include "cli/command.h"
#include "models/loading/catalogue.h"

namespace transom {
namespace {

Json as_json(const CatalogueRow& row) {
  Json cases = Json::array();
  for (const RecordedCase& recorded : row.cases)
    cases.push_back({{"name", recorded.name}, {"passed", recorded.passed}});
  return {{"model_type", row.model_type}, {"architecture", row.architecture}, {"tasks", row.tasks}, {"cases", cases}};
}

// "2 of 2", or the names of those that fail.
std::string summary(const CatalogueRow& row) {
  if (row.cases.empty()) return "-";
  std::vector<std::string_view> failed;
  for (const RecordedCase& recorded : row.cases)
    if (!recorded.passed) failed.push_back(recorded.name);
  std::string text = fmt::format("{} of {}", row.cases.size() - failed.size(), row.cases.size());
  if (!failed.empty()) text += fmt::format("; fails: {}", fmt::join(failed, ", "));
  return text;
}

std::string lower(std::string_view text) {
  std::string result(text);
  for (char& c : result)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  return result;
}

std::vector<CatalogueRow> filtered(const std::string& filter) {
  std::vector<CatalogueRow> rows = catalogue();
  if (filter.empty()) return rows;
  const std::string part = lower(filter);
  std::vector<std::string> names;
  for (const CatalogueRow& row : rows) {
    names.emplace_back(row.model_type);
    for (const auto& task : row.tasks) names.emplace_back(task);
  }
  std::erase_if(rows, [&](const CatalogueRow& row) {
    const auto has = [&](std::string_view text) { return lower(text).find(part) != std::string::npos; };
    return !has(row.model_type) && !has(row.architecture) && std::none_of(row.tasks.begin(), row.tasks.end(), has);
  });
  if (rows.empty()) fail(ErrorKind::kUsage, "no model has {}{}", quoted(filter), did_you_mean(filter, names));
  return rows;
}

}  // namespace

Command models_command() {
  static bool json = false, markdown = false;
  static std::string filter;
  Command command{.name = "models",
                  .help = "List the architectures, their tasks, and which of their cases pass",
                  .examples = "  transom models\n  transom models bert\n  transom models fill-mask --json"};
  command.options = {{"filter", &filter, "part of a model type, an architecture or a task; only what has it is listed"},
                     {"--json", &json, "machine-readable output (JSON)"},
                     {"--markdown", &markdown, "the page docs/models/README.md"}};
  command.run = [] {
    if (markdown) {
      std::fputs(catalogue_page().c_str(), stdout);
      return 0;
    }
    const std::vector<CatalogueRow> rows = filtered(filter);
    if (json) {
      Json list = Json::array();
      for (const CatalogueRow& row : rows) list.push_back(as_json(row));
      std::puts(dump_json(list, 2).c_str());
      return 0;
    }
    std::puts(fmt::format("{:<18} {:<40} {:<8} {}", "MODEL TYPE", "ARCHITECTURE", "CASES", "TASKS").c_str());
    for (const CatalogueRow& row : rows)
      std::puts(fmt::format("{:<18} {:<40} {:<8} {}", row.model_type, row.architecture, summary(row),
                            row.tasks.empty() ? "-" : fmt::format("{}", fmt::join(row.tasks, ", ")))
                    .c_str());
    return 0;
  };
  return command;
}

}  // namespace transom
