// SPDX-License-Identifier: Apache-2.0
// Compiled kernels of the cpu on disk: see common/kernel_files.h.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "common/kernel_files.h"
#include "cpu/codegen/image.h"

namespace transom::cpu::codegen {

class DiskCache {
 public:
  static DiskCache from_environment() { return DiskCache(backend::KernelFiles::folder_from_environment()); }
  explicit DiskCache(std::filesystem::path folder) : files_(std::move(folder), kLargestImage) {}  // empty: off

  // None if there is no such file, or it is not to be trusted: not ours alone to write, cut off, changed, of another
  // version. One that can only be wrong is removed.
  std::optional<Code> read(std::string_view target, std::string_view key) const;
  // Failures are silent. Now and then the oldest files go, so that all of them stay below kLimit bytes.
  void write(std::string_view target, std::string_view key, const Code& code) const;

  static constexpr uintmax_t kLimit = 64 << 20;
  void trim(uintmax_t limit) const { files_.trim(limit); }

  const std::filesystem::path& folder() const { return files_.folder(); }
  std::filesystem::path path_of(std::string_view target, std::string_view key) const;

 private:
  backend::KernelFiles files_;
};

}  // namespace transom::cpu::codegen
