// SPDX-License-Identifier: Apache-2.0
#include "tools/plan/plan_data.h"

#include <cstdlib>

#include "base/error.h"
#include "base/files/directories.h"
#include "base/files/shared_data.h"

namespace transom {

fs::path plan_data(const fs::path& name) {
  if (const auto found = shared_data(name)) return *found;
  fail("share/transom/{}: not found beside the library; is the installation complete?", name.string());
}

std::vector<fs::path> device_model_directories() {
  std::vector<fs::path> result;
  if (const char* given = std::getenv("TRANSOM_DEVICE_MODELS")) result = folders_in(given);
  result.push_back(plan_data("devices"));
  return result;
}

}  // namespace transom
