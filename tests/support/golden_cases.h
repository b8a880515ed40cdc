// SPDX-License-Identifier: Apache-2.0
// The names of golden cases of architectures that are there.
#pragma once

#include <algorithm>
#include <filesystem>
#include <set>
#include <string>
#include <vector>

#include "base/json/json.h"
#include "models/family.h"
#include "support/golden.h"

namespace transom::test {

// Those that hold a file of this name, in the order of their names; none where there are no golden cases.
inline std::vector<std::string> golden_cases_with(const char* file) {
  std::set<std::string> known;
  for (const Family& family : families())
    for (const Architecture& architecture : family.architectures) known.insert(architecture.name);
  std::vector<std::string> names;
  std::error_code none;
  for (const auto& entry : std::filesystem::directory_iterator(golden_folder(), none))
    if (std::filesystem::exists(entry.path() / file) &&
        known.contains(read_json(entry.path() / "case.json").value("class", "")))
      names.push_back(entry.path().filename().string());
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace transom::test
