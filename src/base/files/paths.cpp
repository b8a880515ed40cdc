// SPDX-License-Identifier: Apache-2.0
#include "base/files/paths.h"

#include <algorithm>

#include "base/error.h"
#include "base/files/directories.h"

namespace transom {

std::vector<fs::path> entries_of(const fs::path& directory) {
  std::error_code none;
  std::vector<fs::path> entries;
  // A loop over a range would throw at an entry that cannot be read.
  for (fs::directory_iterator entry(directory, none), end; !none && entry != end; entry.increment(none))
    entries.push_back(entry->path());
  std::sort(entries.begin(), entries.end());
  return entries;
}

bool is_same_file(const fs::path& a, const fs::path& b) {
  std::error_code none;
  return fs::equivalent(a, b, none) && !none;
}

fs::path working_directory() {
  std::error_code error;
  fs::path directory = fs::current_path(error);
  if (error) fail("the working directory cannot be found: {}", error.message());
  return directory;
}

fs::path absolute_path(const fs::path& path) { return path.is_absolute() ? path : working_directory() / path; }

}  // namespace transom
