// SPDX-License-Identifier: Apache-2.0
#include "models/described/family_folders.h"

#include <cstdlib>
#include <map>

#include "base/error.h"
#include "base/files/directories.h"
#include "base/files/shared_data.h"
#include "models/described/described_family.h"

namespace transom {
namespace {

std::vector<fs::path> files_of_families() {
  std::vector<fs::path> folders, files;
  if (const auto own = shared_data("families")) folders.push_back(*own);
  if (const char* given = std::getenv("TRANSOM_FAMILIES"))
    for (const fs::path& folder : folders_in(given)) {
      if (!directory_exists(folder)) fail("TRANSOM_FAMILIES: {}: no folder of that name", folder.string());
      folders.push_back(folder);
    }
  for (const fs::path& folder : folders) {
    for (const fs::path& path : list_directory(folder))
      if (path.extension() == ".json") files.push_back(path);
  }
  return files;
}

}  // namespace

std::vector<Family> described_families(const std::vector<Family>& known) {
  std::map<std::string, std::string> types, classes;  // and where they are from
  const auto enter = [&](const Family& family, const std::string& where) {
    if (const auto [other, is_new] = types.emplace(family.model_type, where); !is_new)
      fail("{}: model_type {}: {} has it already", where, quoted(family.model_type), other->second);
    for (const Architecture& architecture : family.architectures)
      if (const auto [other, is_new] = classes.emplace(architecture.name, where); !is_new)
        fail("{}: class {}: {} has it already", where, quoted(architecture.name), other->second);
  };
  for (const Family& family : known) {
    types.emplace(family.model_type, "the library");
    for (const Architecture& architecture : family.architectures) classes.emplace(architecture.name, "the library");
  }
  std::vector<Family> families;
  for (const fs::path& path : files_of_families()) {
    families.push_back(described_family(read_family_file(path), path.string()));
    enter(families.back(), path.string());
  }
  return families;
}

}  // namespace transom
