// SPDX-License-Identifier: Apache-2.0
#include "tools/certify/report.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/json/json.h"
#include "files/hub/digest.h"

namespace transom::certify {
namespace {

constexpr const char* kFormat = "transom certificate 1";

// JSON knows no infinity.
Json number(double value) { return std::isfinite(value) ? Json(value) : Json(std::isnan(value) ? "nan" : "inf"); }

// The same text for the same report: keys sorted, no spaces, no hash.
std::string canonical(const Json& json) {
  nlohmann::json sorted = nlohmann::json::parse(json.dump());
  sorted.erase("sha256");
  return sorted.dump();
}

Json numbers(const std::vector<double>& values) {
  Json list = Json::array();
  for (const double value : values) list.push_back(number(value));
  return list;
}

}  // namespace

std::string_view name_of(Verdict verdict) {
  return verdict == Verdict::kPass ? "pass" : verdict == Verdict::kFail ? "fail" : "not supported";
}

const Row* Report::first_failure() const {
  const auto found = std::find_if(rows.begin(), rows.end(), [](const Row& r) { return r.verdict == Verdict::kFail; });
  return found == rows.end() ? nullptr : &*found;
}

// Where nothing was tried nothing was shown.
bool Report::passed() const {
  return !first_failure() &&
         std::any_of(rows.begin(), rows.end(), [](const Row& row) { return row.verdict == Verdict::kPass; });
}

Json to_json(const Report& report) {
  Json rows = Json::array();
  for (const Row& row : report.rows)
    rows.push_back({{"level", row.level},
                    {"subject", row.subject},
                    {"variant", row.variant},
                    {"verdict", name_of(row.verdict)},
                    {"cases", row.cases},
                    {"worst", number(row.worst)},
                    {"bound", number(row.bound)},
                    {"share_of_bound", number(row.ratio)},
                    {"note", row.note}});
  Json curves = Json::array();
  for (const Curve& curve : report.curves)
    curves.push_back({{"name", curve.name}, {"expected", numbers(curve.expected)}, {"found", numbers(curve.found)}});
  const DeviceInfo& d = report.device;
  Json json = {{"format", kFormat},
               {"verdict", report.passed() ? "pass" : "fail"},
               {"device",
                {{"name", d.name},
                 {"description", d.description},
                 {"architecture", d.architecture},
                 {"driver", d.driver},
                 {"plugin", fs::path(d.plugin).filename().string()},
                 {"plugin_version", report.plugin_version},
                 {"memory_bytes", d.memory_bytes},
                 {"emulated", d.emulated}}},
               {"seed", report.seed},
               {"levels", report.levels},
               {"rows", std::move(rows)},
               {"curves", std::move(curves)}};
  json["sha256"] = sha256_of_text(canonical(json));
  return json;
}

Json verify_report(const fs::path& file) {
  const Json json = parse_json(read_file(file, uint64_t{1} << 28), file.string());
  if (!json.is_object() || !json.contains("format") || json["format"] != kFormat || !json.contains("sha256") ||
      !json["sha256"].is_string() || !json.contains("verdict") || !json["verdict"].is_string())
    fail("{}: expected a report of transom certify (\"format\": \"{}\"), found another document", file.string(),
         kFormat);
  const std::string expected = sha256_of_text(canonical(json)), found = json["sha256"].get<std::string>();
  if (expected != found)
    fail("{}: the report was changed after it was written: its SHA-256 is {}, it says {}", file.string(), expected,
         quoted(found));
  return json;
}

std::string to_text(const Report& report) {
  std::string text;
  std::string level;
  const auto amount = [](double x) { return std::isinf(x) ? std::string("-") : fmt::format("{:.3g}", x); };
  for (const Row& row : report.rows) {
    if (row.level != level) {
      level = row.level;
      text += fmt::format("{}{:<34} {:<18} {:>6} {:>10} {:>10}  {}\n", text.empty() ? "" : "\n",
                          level == "operations"                       ? "OPERATION"
                          : level == "models" || level == "on-policy" ? "MODEL"
                                                                      : "BEHAVIOUR",
                          "", "CASES", level == "operations" ? "WORST ULP" : "WORST", "BOUND", "VERDICT");
    }
    text += fmt::format("{:<34} {:<18} {:>6} {:>10} {:>10}  {}{}\n", row.subject, row.variant, row.cases,
                        amount(row.worst), amount(row.bound), name_of(row.verdict),
                        row.verdict == Verdict::kPass || row.note.empty() ? "" : ": " + row.note);
  }
  return text;
}

}  // namespace transom::certify
