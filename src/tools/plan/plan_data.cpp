// SPDX-License-Identifier: Apache-2.0
#include "tools/plan/plan_data.h"

#include <dlfcn.h>

#include <cstdlib>

#include "base/error.h"
#include "base/files/directories.h"

namespace transom {

fs::path plan_data(const fs::path& name) {
  Dl_info info{};
  std::error_code ignored;
  fs::path folder;
  if (dladdr(reinterpret_cast<void*>(&plan_data), &info) && info.dli_fname)
    folder = fs::canonical(info.dli_fname, ignored).parent_path();
  // lib/, or lib/x86_64-linux-gnu/
  for (const fs::path& root : {folder.parent_path(), folder.parent_path().parent_path()}) {
    const fs::path candidate = root / "share" / "transom" / name;
    if (path_exists(candidate)) return candidate;
  }
  fail("share/transom/{}: not found beside {}; is the installation complete?", name.string(), folder.string());
}

std::vector<fs::path> device_model_directories() {
  std::vector<fs::path> result;
  if (const char* given = std::getenv("TRANSOM_DEVICE_MODELS")) {
    const std::string text(given);
    for (size_t begin = 0; begin <= text.size();) {
      const size_t end = std::min(text.find(':', begin), text.size());
      if (end > begin) result.emplace_back(text.substr(begin, end - begin));
      begin = end + 1;
    }
  }
  result.push_back(plan_data("devices"));
  return result;
}

}  // namespace transom
