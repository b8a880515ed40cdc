// SPDX-License-Identifier: Apache-2.0
// Compiled kernels of GPUs on disk, one file each. Any file may be deleted at any time; files are written beside their
// place and renamed. A file holds what it was made from, and is believed only if that is what is asked for, nobody but
// this user may have written it, and its check sum fits.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

namespace transom::gpu {

class BinaryCache {
 public:
  // The folder `gpu` in what TRANSOM_KERNEL_CACHE names (`off`: none), else in $XDG_CACHE_HOME/transom/kernels, else in
  // ~/.cache/transom/kernels.
  static BinaryCache from_environment();
  explicit BinaryCache(std::filesystem::path folder) : folder_(std::move(folder)) {}  // empty: off

  // `target` names compiler, chip and options, `text` is the kernel's.
  std::optional<std::string> read(std::string_view target, std::string_view text) const;
  // Failures are silent: the next process compiles again. The oldest files go once all have more than kLimit bytes.
  void write(std::string_view target, std::string_view text, std::string_view code) const;
  std::filesystem::path path_of(std::string_view target, std::string_view text) const;

  static constexpr uintmax_t kLimit = 256 << 20;
  static constexpr size_t kLargest = 64 << 20;  // bytes of one file

 private:
  void trim() const;
  std::filesystem::path folder_;
};

}  // namespace transom::gpu
