// SPDX-License-Identifier: Apache-2.0
#include "gpu/api/shared_library.h"

#include <dlfcn.h>
#include <fmt/ranges.h>

#include <cstdlib>
#include <filesystem>

#include "transom/plugin/error.h"

namespace transom::gpu {
namespace {

std::vector<std::string> candidates(const std::vector<std::string>& files, const char* variable) {
  const char* named = std::getenv(variable);
  if (!named || !*named) return files;
  std::error_code ignored;
  if (!std::filesystem::is_directory(named, ignored)) return {named};
  std::vector<std::string> result;
  for (const std::string& file : files)
    result.push_back((std::filesystem::path(named) / std::filesystem::path(file).filename()).string());
  return result;
}

}  // namespace

SharedLibrary SharedLibrary::open(const std::vector<std::string>& files, const char* variable,
                                  const std::string& cure) {
  SharedLibrary library;
  const std::vector<std::string> tried = candidates(files, variable);
  std::string reason;
  for (const std::string& file : tried) {
    library.handle_ = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (library.handle_) {
      library.path_ = file;
      return library;
    }
    // A file that is there but cannot be opened tells more than one that is not.
    const char* text = dlerror();
    std::error_code ignored;
    if (reason.empty() && text && std::filesystem::exists(file, ignored)) reason = std::string(" (") + text + ")";
  }
  backend::fail(TRANSOM_UNAVAILABLE, "expected one of the libraries {}, found none{}; {}, or name the file in {}",
                fmt::join(tried, ", "), reason, cure, variable);
}

void* SharedLibrary::find(const char* symbol) const { return dlsym(handle_, symbol); }

void* SharedLibrary::expect(const char* symbol) const {
  if (void* found = find(symbol)) return found;
  backend::fail(TRANSOM_UNAVAILABLE, "{}: expected the function {}, found none; the driver is too old", path_, symbol);
}

}  // namespace transom::gpu
