// SPDX-License-Identifier: Apache-2.0
// transom models: the architectures, their tasks, and which of their cases pass.
#include <algorithm>
#include <cstdio>

#include "apps/cli/command.h"
#include "base/error.h"
#include "base/json/json.h"
#include "models/described/family_report.h"
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

// Letters and digits alone: "Qwen/Qwen2.5-0.5B" names what "qwen2" is.
std::string letters_of(std::string_view text) {
  std::string result;
  for (const char c : lower(text))
    if (('a' <= c && c <= 'z') || ('0' <= c && c <= '9')) result += c;
  return result;
}

// The model types that an id of the Hub begins with: the longest of those that its name holds.
std::vector<std::string> types_in_id(const std::string& id, const std::vector<CatalogueRow>& rows) {
  const std::string name = letters_of(std::string_view(id).substr(id.rfind('/') + 1));
  std::vector<std::string> types;
  for (const CatalogueRow& row : rows) {
    const std::string type = letters_of(row.model_type);
    if (!name.starts_with(type)) continue;
    if (!types.empty() && letters_of(types.front()).size() < type.size()) types.clear();
    if (types.empty() || letters_of(types.front()).size() == type.size()) types.emplace_back(row.model_type);
  }
  return types;
}

// The rows that have one of the filters.
std::vector<CatalogueRow> filtered(const std::vector<std::string>& filters) {
  std::vector<CatalogueRow> rows = catalogue();
  if (filters.empty()) return rows;
  std::vector<std::string> names;
  for (const CatalogueRow& row : rows) {
    names.emplace_back(row.model_type);
    for (const auto& task : row.tasks) names.emplace_back(task);
  }
  std::vector<bool> wanted(rows.size());
  for (const std::string& filter : filters) {
    const std::string part = lower(filter);
    const std::vector<std::string> types =
        filter.find('/') != filter.npos ? types_in_id(filter, rows) : std::vector<std::string>();
    bool found = false;
    for (size_t i = 0; i < rows.size(); ++i) {
      const CatalogueRow& row = rows[i];
      const auto has = [&](std::string_view text) { return lower(text).find(part) != std::string::npos; };
      const bool fits = has(row.model_type) || has(row.architecture) ||
                        std::any_of(row.tasks.begin(), row.tasks.end(), has) ||
                        std::find(types.begin(), types.end(), row.model_type) != types.end();
      wanted[i] = wanted[i] || fits, found |= fits;
    }
    if (!found) fail(ErrorKind::kUsage, "no model has {}{}", quoted(filter), did_you_mean(filter, names));
  }
  std::vector<CatalogueRow> result;
  for (size_t i = 0; i < rows.size(); ++i)
    if (wanted[i]) result.push_back(std::move(rows[i]));
  return result;
}

// A line for each thing that is wrong with a family file, else what it describes.
int check_family(const std::string& file, bool json) {
  const FamilyReport report = report_on_family(file);
  if (json) {
    std::puts(dump_json({{"findings", report.findings},
                         {"model_type", report.model_type},
                         {"classes", report.classes},
                         {"parameters", report.parameters}},
                        2)
                  .c_str());
  } else if (report.findings.empty()) {
    std::puts(fmt::format("{}: {}\n\nParameters of its defaults, of the first layer alone:", report.model_type,
                          fmt::join(report.classes, ", "))
                  .c_str());
    for (const std::string& parameter : report.parameters) std::puts(("  " + parameter).c_str());
  } else {
    for (const std::string& finding : report.findings) std::puts(fmt::format("{}: {}", file, finding).c_str());
  }
  if (report.findings.empty()) return 0;
  fail("{}: {} {} wrong with this family", file, report.findings.size(),
       report.findings.size() == 1 ? "thing is" : "things are");
}

}  // namespace

Command models_command() {
  static bool json = false, markdown = false;
  static std::string checked;
  static std::vector<std::string> filters;
  Command command{.name = "models",
                  .help = "List the architectures, their tasks, and which of their cases pass",
                  .examples =
                      "  transom models\n  transom models gemma3 qwen3\n  transom models fill-mask --json\n"
                      "  transom models --check my-families/plum.json"};
  command.options = {{"filter", &filters,
                      "parts of model types, architectures or tasks, or ids of the Hub; only what has one is listed"},
                     {"--json", &json, "machine-readable output (JSON)"},
                     {"--markdown", &markdown, "the page docs/models/README.md"},
                     {"--check", &checked, "a family file: what is missing or contradictory in it"}};
  command.run = [] {
    if (!checked.empty()) return check_family(checked, json);
    if (markdown) {
      std::fputs(catalogue_page().c_str(), stdout);
      return 0;
    }
    const std::vector<CatalogueRow> rows = filtered(filters);
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
