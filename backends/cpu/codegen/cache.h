// SPDX-License-Identifier: Apache-2.0
// Compiled kernels on disk, one file each. Any file may be deleted at any time, by anyone; files are written beside
// their place and renamed, so that a reader sees a whole one or none.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

#include "cpu/codegen/image.h"

namespace transom::cpu::codegen {

class DiskCache {
 public:
  // Where the environment says: TRANSOM_KERNEL_CACHE (a folder, or `off`), else $XDG_CACHE_HOME/transom/kernels, else
  // ~/.cache/transom/kernels. Off too if there is no home.
  static DiskCache from_environment();
  explicit DiskCache(std::filesystem::path folder) : folder_(std::move(folder)) {}  // empty: off

  // None if there is no such file, or it is not to be trusted: not ours alone to write, cut off, changed, of another
  // version. One that can only be wrong is removed.
  std::optional<Code> read(std::string_view target, std::string_view key) const;

  // Failures are silent: the next process compiles again. Now and then the oldest files go, so that all of them stay
  // below `limit` bytes.
  void write(std::string_view target, std::string_view key, const Code& code) const;

  static constexpr uintmax_t kLimit = 64 << 20;
  void trim(uintmax_t limit) const;

  const std::filesystem::path& folder() const { return folder_; }
  std::filesystem::path path_of(std::string_view target, std::string_view key) const;

 private:
  bool trusted_folder() const;

  std::filesystem::path folder_;
};

}  // namespace transom::cpu::codegen
