// SPDX-License-Identifier: Apache-2.0
#include "base/files/directories.h"

#include <algorithm>

#include "base/error.h"
#include "base/files/container_files.h"

namespace transom {
namespace {

[[noreturn]] void refuse(const fs::path& path, std::string_view action, const std::error_code& error) {
  fail("{}: {}: {}", quoted(path.string(), 200), action, error.message());
}

fs::file_status status_of(const fs::path& path) {
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  if (status.type() == fs::file_type::none) refuse(path, "cannot be examined", error);
  return status;
}

template <typename Iterator, typename Wanted>
std::vector<fs::path> collect(const fs::path& directory, Wanted wanted) {
  std::error_code error;
  std::vector<fs::path> result;
  for (Iterator entry(directory, error), end; !error && entry != end; entry.increment(error))
    if (wanted(*entry)) result.push_back(entry->path());
  if (error) refuse(directory, "cannot be read", error);
  std::sort(result.begin(), result.end());
  return result;
}

}  // namespace

bool path_exists(const fs::path& path) { return fs::exists(status_of(path)) || container_part(path); }
bool directory_exists(const fs::path& path) { return fs::is_directory(status_of(path)); }
bool file_exists(const fs::path& path) { return fs::is_regular_file(status_of(path)) || container_part(path); }

void make_directories(const fs::path& path) {
  std::error_code error;
  fs::create_directories(path, error);
  if (error) refuse(path, "this directory cannot be made", error);
}

void remove_tree(const fs::path& path) {
  std::error_code error;
  fs::remove_all(path, error);
  if (error) refuse(path, "cannot be removed", error);
}

std::vector<fs::path> list_directory(const fs::path& directory) {
  return collect<fs::directory_iterator>(directory, [](const auto&) { return true; });
}

std::vector<fs::path> list_files_below(const fs::path& directory) {
  return collect<fs::recursive_directory_iterator>(directory, [](const fs::directory_entry& entry) {
    std::error_code none;
    return entry.is_regular_file(none);
  });
}

}  // namespace transom
