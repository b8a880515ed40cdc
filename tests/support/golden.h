// SPDX-License-Identifier: Apache-2.0
// Where the cases made with Transformers are, if they are there: TRANSOM_GOLDEN, else ../shared/golden beside the
// sources.
#pragma once

#include <cstdlib>
#include <filesystem>

#include "support/folders.h"

namespace transom::test {

inline std::filesystem::path golden_folder() {
  if (const char* folder = std::getenv("TRANSOM_GOLDEN")) return folder;
  return std::filesystem::path(source_folder()) / "../shared/golden";
}

}  // namespace transom::test
