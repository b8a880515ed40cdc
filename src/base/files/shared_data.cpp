// SPDX-License-Identifier: Apache-2.0
#include "base/files/shared_data.h"

#include <dlfcn.h>

#include <algorithm>

#include "base/files/directories.h"

namespace transom {

std::optional<fs::path> shared_data(const fs::path& name) {
  Dl_info info{};
  std::error_code ignored;
  fs::path folder;
  if (dladdr(reinterpret_cast<void*>(&shared_data), &info) && info.dli_fname)
    folder = fs::canonical(info.dli_fname, ignored).parent_path();
  // lib/, or lib/x86_64-linux-gnu/
  for (const fs::path& root : {folder.parent_path(), folder.parent_path().parent_path()}) {
    const fs::path candidate = root / "share" / "transom" / name;
    if (path_exists(candidate)) return candidate;
  }
  return std::nullopt;
}

std::vector<fs::path> folders_in(const std::string& list) {
  std::vector<fs::path> result;
  for (size_t begin = 0; begin <= list.size();) {
    const size_t end = std::min(list.find(':', begin), list.size());
    if (end > begin) result.emplace_back(list.substr(begin, end - begin));
    begin = end + 1;
  }
  return result;
}

}  // namespace transom
