// SPDX-License-Identifier: Apache-2.0
// Where the golden cases of Trainer are, if they are.
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <vector>

#include "support/folders.h"

namespace transom {

inline std::filesystem::path golden_folder() {
  if (const char* folder = std::getenv("TRANSOM_GOLDEN")) return folder;
  return std::filesystem::path(test::source_folder()) / "../shared/golden";
}

// The folders of trainer/ that have a file of this name; empty where there are no golden cases.
inline std::vector<std::filesystem::path> golden_trainer_cases(const char* file) {
  std::vector<std::filesystem::path> cases;
  std::error_code none;
  for (const auto& entry : std::filesystem::directory_iterator(golden_folder() / "trainer", none))
    if (std::filesystem::exists(entry.path() / file)) cases.push_back(entry.path());
  return cases;
}

}  // namespace transom
