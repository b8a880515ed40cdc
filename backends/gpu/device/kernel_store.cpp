// SPDX-License-Identifier: Apache-2.0
#include "gpu/device/kernel_store.h"

#include "gpu/device/binary_cache.h"

namespace transom::gpu {

const Kernel& KernelStore::get(const std::string& text) {
  const std::lock_guard lock(mutex_);
  std::unique_ptr<Kernel>& kernel = kernels_[text];
  if (kernel) return *kernel;
  try {
    static const BinaryCache cache = BinaryCache::from_environment();
    if (const auto code = cache.read(context_.target(), text)) {
      try {
        kernel = context_.load(*code);
        ++read_;
        return *kernel;
      } catch (const backend::Failure&) {  // a driver that was updated without another version: compile anew
      }
    }
    const std::string code = context_.compile(text);
    kernel = context_.load(code);
    cache.write(context_.target(), text, code);
    ++compiled_;
    return *kernel;
  } catch (...) {
    kernels_.erase(text);
    throw;
  }
}

}  // namespace transom::gpu
