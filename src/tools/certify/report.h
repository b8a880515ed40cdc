// SPDX-License-Identifier: Apache-2.0
// What a certification found: as tables, as JSON signed by its hash, and as a page.
#pragma once

#include <string>
#include <vector>

#include "base/files/files.h"
#include "base/json/json_fwd.h"
#include "transom/device.h"

namespace transom::certify {

enum class Verdict { kPass, kFail, kNotSupported };
std::string_view name_of(Verdict verdict);  // "pass", "fail", "not supported"

// A line of a table.
struct Row {
  std::string level;    // "operations", "models", "behaviour", "on-policy"
  std::string subject;  // an operation, a model, what the device is asked to do
  std::string variant;  // "f32 forward", "loss curve"
  Verdict verdict = Verdict::kPass;
  int64_t cases = 1;
  double worst = 0, bound = 0;  // in the unit of the level; operations: units in the last place
  double ratio = 0;             // the worst error by what is allowed
  std::string note;             // the first element that is wrong; why something is not supported
};

struct Curve {
  std::string name;
  std::vector<double> expected, found;
};

struct Report {
  DeviceInfo device;
  std::string plugin_version;
  uint64_t seed = 0;
  std::vector<std::string> levels;
  std::vector<Row> rows;
  std::vector<Curve> curves;

  bool passed() const;
  const Row* first_failure() const;  // null if there is none
};

Json to_json(const Report& report);         // with "sha256", over the canonical text of all else
std::string to_html(const Report& report);  // one page that needs nothing else
std::string to_text(const Report& report);

// Throws an Error that says what is wrong if the file is no report, or was changed after it was written. Returns it.
Json verify_report(const fs::path& file);

}  // namespace transom::certify
