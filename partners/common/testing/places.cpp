// SPDX-License-Identifier: Apache-2.0
#include "testing/places.h"

#include <cstdlib>

namespace transom::test {

std::string program_path() { return PARTNER_PROGRAM; }
std::string partner_folder() { return PARTNER_FOLDER; }

std::string golden_folder() {
  const char* given = std::getenv("TRANSOM_GOLDEN_CASES");
  return given ? given : PARTNER_FOLDER "/../../tests/golden";
}

}  // namespace transom::test
