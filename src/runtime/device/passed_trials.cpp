// SPDX-License-Identifier: Apache-2.0
#include "runtime/device/passed_trials.h"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <vector>

#include "base/error.h"
#include "base/files/directories.h"

namespace transom {
namespace {

fs::path cache_folder() {
  for (const auto& [variable, below] : {std::pair("XDG_CACHE_HOME", ""), std::pair("HOME", ".cache")})
    if (const char* folder = std::getenv(variable); folder && *folder == '/')
      return fs::path(folder) / below / "transom" / "plugins";
  return {};
}

uint64_t hash(std::string_view text) {
  uint64_t value = 0xCBF29CE484222325;  // FNV-1a
  for (const unsigned char c : text) value = (value ^ c) * 0x100000001B3;
  return value;
}

}  // namespace

PassedTrials::PassedTrials(const fs::path& plugin) {
  std::error_code error;
  const fs::path whole = fs::canonical(plugin, error);
  const uint64_t size = error ? 0 : fs::file_size(whole, error);
  const auto changed = error ? fs::file_time_type() : fs::last_write_time(whole, error);
  const fs::path folder = cache_folder();
  if (error || folder.empty()) return;
  std::vector<std::string> variables;
  for (char** variable = environ; variable && *variable; ++variable) {
    const std::string_view text = *variable;
    if (text.starts_with("TRANSOM_") || text.starts_with("LD_")) variables.emplace_back(text);
  }
  std::sort(variables.begin(), variables.end());
  text_ = fmt::format("{}\n{} bytes, {}\n{}\n", whole.string(), size, changed.time_since_epoch().count(),
                      fmt::join(variables, "\n"));
  entry_ = folder / fmt::format("{:016x}", hash(whole.string()));
}

bool PassedTrials::contain_this() const {
  std::error_code ignored;
  if (entry_.empty() || !fs::is_regular_file(entry_, ignored)) return false;
  try {
    return read_file(entry_, 1 << 20) == text_;
  } catch (const Error&) {
    return false;
  }
}

void PassedTrials::add() const {
  if (entry_.empty()) return;
  try {
    make_directories(entry_.parent_path());
    write_file(entry_, text_);
  } catch (const Error&) {  // a cache that cannot be written is no reason to stop
  }
}

}  // namespace transom
