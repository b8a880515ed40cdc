// SPDX-License-Identifier: Apache-2.0
// Where the cases made with the real libraries are. Those of the tree (tests/golden) are always there. A larger set may
// lie outside of it: TRANSOM_GOLDEN, TRANSOM_GOLDEN_FORMATS and TRANSOM_GOLDEN_QUANTIZED, else ../shared/golden,
// golden-formats and golden-quantized beside the sources; its cases run besides.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include "support/folders.h"
#include "support/test_names.h"

namespace transom::test {

enum class GoldenSet { kLibraries, kFormats, kQuantized };

// The larger set; a folder that may not be there.
inline std::filesystem::path shared_golden_folder(GoldenSet set = GoldenSet::kLibraries) {
  const std::string suffix = set == GoldenSet::kFormats ? "formats" : set == GoldenSet::kQuantized ? "quantized" : "";
  std::string variable = "TRANSOM_GOLDEN" + std::string(suffix.empty() ? "" : "_") + suffix;
  std::transform(variable.begin(), variable.end(), variable.begin(), [](unsigned char c) { return std::toupper(c); });
  if (const char* folder = std::getenv(variable.c_str())) return folder;
  return std::filesystem::path(source_folder()) / ("../shared/golden" + (suffix.empty() ? "" : "-" + suffix));
}

// The set of the tree.
std::filesystem::path golden_folder(GoldenSet set = GoldenSet::kLibraries);

inline constexpr const char* kSharedCase = "shared/";  // begins the names of cases of the larger set

// The folders below `below` of both sets that hold a file of this name, each by its name, in order: first those of the
// tree. A suite without them has no tests, which gtest calls a failure.
std::vector<std::string> golden_cases(const std::string& file, GoldenSet set = GoldenSet::kLibraries,
                                      const std::string& below = "");

inline bool is_shared_case(const std::string& name) { return name.starts_with(kSharedCase); }

// The set that a case of this name is of.
inline std::filesystem::path root_of_case(const std::string& name, GoldenSet set = GoldenSet::kLibraries) {
  return is_shared_case(name) ? shared_golden_folder(set) : golden_folder(set);
}

// The name of a case as its files have it.
inline std::string bare_name(const std::string& name) {
  return is_shared_case(name) ? name.substr(std::string(kSharedCase).size()) : name;
}

inline std::filesystem::path folder_of_case(const std::string& name, GoldenSet set = GoldenSet::kLibraries,
                                            const std::string& below = "") {
  return (root_of_case(name, set) / below / bare_name(name)).lexically_normal();
}

}  // namespace transom::test
