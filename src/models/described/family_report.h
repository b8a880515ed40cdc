// SPDX-License-Identifier: Apache-2.0
// What `transom models --check` says of a family file.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace transom {

struct FamilyReport {
  std::vector<std::string> findings;  // what is missing, unknown or contradictory
  std::string model_type;
  std::vector<std::string> classes;
  std::vector<std::string> parameters;  // of the first class, for the defaults; layers behind the first left out
};

// Reads the file, and makes each of its classes, without values, of its defaults. Throws where the file cannot be read
// as JSON.
FamilyReport report_on_family(const std::filesystem::path& file);

}  // namespace transom
