// SPDX-License-Identifier: Apache-2.0
// The golden cases of Trainer.
#pragma once

#include <filesystem>
#include <vector>

#include "support/golden.h"

namespace transom {

// The folders of trainer/ that have a file of this name.
inline std::vector<std::filesystem::path> golden_trainer_cases(const char* file) {
  std::vector<std::filesystem::path> cases;
  for (const std::string& name : test::golden_cases(file, test::GoldenSet::kLibraries, "trainer"))
    cases.push_back(test::folder_of_case(name, test::GoldenSet::kLibraries, "trainer"));
  return cases;
}

}  // namespace transom
