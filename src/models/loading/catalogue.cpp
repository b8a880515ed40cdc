// SPDX-License-Identifier: Apache-2.0
#include "models/loading/catalogue.h"

#include <algorithm>
#include <map>
#include <set>

#include "base/error.h"
#include "models/family.h"

namespace transom {

std::vector<CatalogueRow> catalogue() {
  std::vector<CatalogueRow> rows;
  for (const Family& family : families())
    for (const Architecture& architecture : family.architectures) {
      CatalogueRow row{family.model_type, architecture.name, *architecture.head.pipelines, {}};
      for (const RecordedCase& recorded : recorded_cases())
        if (recorded.architecture == architecture.name) row.cases.push_back(recorded);
      rows.push_back(std::move(row));
    }
  return rows;
}

namespace {

// Which model types have a task, one row a task.
std::string types_by_task(const std::vector<CatalogueRow>& rows) {
  std::map<std::string, std::set<std::string>> types;
  for (const CatalogueRow& row : rows)
    for (const std::string& task : row.tasks) types[task].insert(row.model_type);
  std::string table = "| task | model types |\n| --- | --- |\n";
  for (const auto& [task, of_task] : types) table += fmt::format("| {} | {} |\n", task, fmt::join(of_task, ", "));
  return table;
}

}  // namespace

std::string catalogue_size() {
  const std::vector<CatalogueRow> rows = catalogue();
  std::set<std::string> types;
  for (const CatalogueRow& row : rows) types.insert(row.model_type);
  return fmt::format("{} architectures of {} model types", rows.size(), types.size());
}

std::string catalogue_page() {
  const std::vector<CatalogueRow> rows = catalogue();
  std::string page =
      "# Models\n\n"
      "`scripts/write-models-page` makes this page of the table that `transom models` shows. A case is a checkpoint "
      "with the\n"
      "outputs, the loss and every gradient that Transformers has for it; it passes where all of them agree within "
      "its\n"
      "tolerances. Heads without a case of their own stand on a body that has one. Where a family has a form in GGUF, "
      "files of\n"
      "that architecture are read and written.\n\n" +
      fmt::format("Here are {}, and before them which have which task.\n\n", catalogue_size()) + types_by_task(rows);
  std::string type;
  size_t passed = 0, all = 0;
  for (const CatalogueRow& row : rows) {
    if (row.model_type != type) {
      const std::optional<GgufFamily>& gguf = *find_family(row.model_type)->foreign.gguf;
      page += fmt::format("\n## {}\n\n{}| architecture | tasks | cases |\n| --- | --- | --- |\n", row.model_type,
                          gguf ? fmt::format("GGUF: `{}`\n\n", gguf->architecture) : "");
      type = row.model_type;
    }
    std::string cases;
    for (const RecordedCase& recorded : row.cases) {
      cases += fmt::format("{}{}{}", cases.empty() ? "" : ", ", recorded.name, recorded.passed ? "" : " (fails)");
      passed += recorded.passed;
      ++all;
    }
    page += fmt::format("| `{}` | {} | {} |\n", row.architecture, fmt::join(row.tasks, ", "), cases);
  }
  return page + fmt::format("\n{} of {} cases pass.\n", passed, all);
}

}  // namespace transom
