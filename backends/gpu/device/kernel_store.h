// SPDX-License-Identifier: Apache-2.0
// The kernels of a device by their text: compiled once a process, and kept on disk for the next one.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "gpu/api/api.h"

namespace transom::gpu {

class KernelStore {
 public:
  explicit KernelStore(Context& context) : context_(context) {}

  // Compiles the text unless it is known. Kernels live as long as the store. Any thread may ask; each text is compiled
  // once, and those who ask for it meanwhile wait.
  const Kernel& get(const std::string& text);

  // Of this process, for reports: compiled, and read from disk.
  uint64_t compiled() const { return compiled_; }
  uint64_t read() const { return read_; }

 private:
  Context& context_;
  std::mutex mutex_;
  std::map<std::string, std::unique_ptr<Kernel>, std::less<>> kernels_;
  uint64_t compiled_ = 0, read_ = 0;
};

}  // namespace transom::gpu
