// SPDX-License-Identifier: Apache-2.0
#include "support/golden.h"

namespace transom::test {

std::filesystem::path golden_folder(GoldenSet set) {
  const std::filesystem::path tree = std::filesystem::path(build_folder()) / "golden";  // written by the build
  return set == GoldenSet::kFormats ? tree / "formats" : set == GoldenSet::kQuantized ? tree / "quantized" : tree;
}

std::vector<std::string> golden_cases(const std::string& file, GoldenSet set, const std::string& below) {
  std::vector<std::string> all;
  for (const bool shared : {false, true}) {
    std::vector<std::string> names;
    std::error_code none;
    const std::filesystem::path root = shared ? shared_golden_folder(set) : golden_folder(set);
    for (const auto& entry : std::filesystem::directory_iterator(root / below, none))
      if (std::filesystem::exists(entry.path() / file))
        names.push_back((shared ? kSharedCase : "") + entry.path().filename().string());
    std::sort(names.begin(), names.end());
    all.insert(all.end(), names.begin(), names.end());
  }
  return all;
}

}  // namespace transom::test
