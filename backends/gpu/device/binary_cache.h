// SPDX-License-Identifier: Apache-2.0
// Compiled kernels of GPUs on disk: see common/kernel_files.h. A file holds what it was made from, and is believed only
// if that is what is asked for and its check sum fits.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "common/kernel_files.h"

namespace transom::gpu {

class BinaryCache {
 public:
  // The folder `gpu` in that of all kernels.
  static BinaryCache from_environment();
  explicit BinaryCache(std::filesystem::path folder) : files_(std::move(folder), kLargest) {}  // empty: off

  // `target` names compiler, chip and options, `text` is the kernel's.
  std::optional<std::string> read(std::string_view target, std::string_view text) const;
  // Failures are silent: the next process compiles again. The oldest files go once all have more than kLimit bytes.
  void write(std::string_view target, std::string_view text, std::string_view code) const;
  std::filesystem::path path_of(std::string_view target, std::string_view text) const;

  static constexpr uintmax_t kLimit = 256 << 20;
  static constexpr size_t kLargest = 64 << 20;  // bytes of one file

 private:
  backend::KernelFiles files_;
};

}  // namespace transom::gpu
