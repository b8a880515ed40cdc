// SPDX-License-Identifier: Apache-2.0
// The golden cases of models, of architectures that are there.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "base/json/json.h"
#include "models/family.h"
#include "support/golden.h"

namespace transom::test {

// Those that hold a file of this name, as golden_cases() gives them.
inline std::vector<std::string> golden_cases_with(const char* file) {
  std::set<std::string> known;
  for (const Family& family : families())
    for (const Architecture& architecture : family.architectures) known.insert(architecture.name);
  std::vector<std::string> names;
  for (const std::string& name : golden_cases(file)) {
    const std::filesystem::path about = folder_of_case(name) / "case.json";
    if (std::filesystem::exists(about) && known.contains(read_json(about).value("class", ""))) names.push_back(name);
  }
  return names;
}

}  // namespace transom::test
