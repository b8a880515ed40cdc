// SPDX-License-Identifier: Apache-2.0
// A vendor's library, opened while the program runs.
#pragma once

#include <string>
#include <vector>

namespace transom::gpu {

class SharedLibrary {
 public:
  // The first of `files` that can be opened. `variable`: of the environment; where it is set it names the only file
  // that is tried, or, if it names a folder, the folder of `files`. Throws TRANSOM_UNAVAILABLE with what was tried.
  // Libraries stay open until the process ends, since drivers do not survive being closed.
  static SharedLibrary open(const std::vector<std::string>& files, const char* variable, const std::string& cure);

  // Null where there is none.
  void* find(const char* symbol) const;
  // Throws TRANSOM_UNAVAILABLE where there is none.
  void* expect(const char* symbol) const;
  const std::string& path() const { return path_; }

 private:
  void* handle_ = nullptr;
  std::string path_;
};

}  // namespace transom::gpu
