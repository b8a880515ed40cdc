// SPDX-License-Identifier: Apache-2.0
// A folder of compiled kernels, one file each, which are run: nothing is read that another user may have written. Any
// file may be deleted at any time, by anyone; files are written beside their place and renamed, so that a reader sees a
// whole one or none. What stands in a file, and whether it is the right one, is the owner's to check.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

namespace transom::backend {

class KernelFiles {
 public:
  // `folder`: empty: there are no files. Larger files than `largest` bytes are neither read nor written.
  KernelFiles(std::filesystem::path folder, size_t largest) : folder_(std::move(folder)), largest_(largest) {}

  // Where the environment says: TRANSOM_KERNEL_CACHE (a folder, or `off`), else $XDG_CACHE_HOME/transom/kernels, else
  // ~/.cache/transom/kernels. Empty: off, or no home.
  static std::filesystem::path folder_from_environment();

  // None if there is no such regular file, or the file or the folder is not this user's alone to write. Never waits.
  std::optional<std::string> read(const std::string& name) const;
  // Failures are silent: the next process compiles again. Now and then the folder is trimmed to `limit` bytes.
  void write(const std::string& name, std::string_view bytes, uintmax_t limit) const;
  void remove(const std::string& name) const;
  // If the kernels have more than `limit` bytes, the oldest go until three quarters of it are left; and with them what
  // a process left behind that ended while it wrote.
  void trim(uintmax_t limit) const;

  const std::filesystem::path& folder() const { return folder_; }
  std::filesystem::path path_of(const std::string& name) const { return folder_ / (name + kSuffix); }

 private:
  static constexpr const char* kSuffix = ".kernel";
  bool is_trusted() const;

  std::filesystem::path folder_;
  size_t largest_;
};

}  // namespace transom::backend
