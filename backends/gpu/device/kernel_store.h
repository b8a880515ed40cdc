// SPDX-License-Identifier: Apache-2.0
// The kernels of a device by their text: compiled once a process, and kept on disk for the next one.
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "gpu/api/api.h"

namespace transom::gpu {

class KernelStore {
 public:
  explicit KernelStore(Context& context) : context_(context) {}

  // Compiles the text unless it is known. Kernels live as long as the store. Any thread may ask; each text is compiled
  // once, and those who ask for it meanwhile wait.
  const Kernel& get(const std::string& text);
  // Compiles those of the texts that are not known on several threads, where the runtime's compiler allows it. What
  // does not compile is left to get(), which says why.
  void prepare(const std::vector<const std::string*>& texts);

  // Of this process, for reports: compiled, and read from disk.
  uint64_t compiled() const { return compiled_; }
  uint64_t read() const { return read_; }

 private:
  struct Entry {
    std::mutex mutex;  // held while it is made
    std::unique_ptr<Kernel> kernel;
  };
  std::unique_ptr<Kernel> made(const std::string& text);

  Context& context_;
  std::mutex mutex_;  // guards the map
  std::map<std::string, std::shared_ptr<Entry>, std::less<>> kernels_;
  std::atomic<uint64_t> compiled_ = 0, read_ = 0;
};

}  // namespace transom::gpu
