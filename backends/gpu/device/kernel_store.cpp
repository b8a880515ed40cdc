// SPDX-License-Identifier: Apache-2.0
#include "gpu/device/kernel_store.h"

#include <algorithm>
#include <set>
#include <thread>

#include "gpu/device/binary_cache.h"

namespace transom::gpu {

std::unique_ptr<Kernel> KernelStore::made(const std::string& text) {
  static const BinaryCache cache = BinaryCache::from_environment();
  if (const auto code = cache.read(context_.target(), text)) {
    try {
      std::unique_ptr<Kernel> kernel = context_.load(*code);
      ++read_;
      return kernel;
    } catch (const backend::Failure&) {  // a driver that was updated without another version: compile anew
    }
  }
  const std::string code = context_.compile(text);
  std::unique_ptr<Kernel> kernel = context_.load(code);
  cache.write(context_.target(), text, code);
  ++compiled_;
  return kernel;
}

const Kernel& KernelStore::get(const std::string& text) {
  std::shared_ptr<Entry> entry;
  {
    const std::lock_guard lock(mutex_);
    std::shared_ptr<Entry>& place = kernels_[text];
    if (!place) place = std::make_shared<Entry>();
    entry = place;
  }
  const std::lock_guard lock(entry->mutex);
  if (!entry->kernel) entry->kernel = made(text);  // after a failure the next one who asks tries again
  return *entry->kernel;
}

void KernelStore::prepare(const std::vector<const std::string*>& texts) {
  // Compilers of OpenCL drivers are not all safe to call from two threads: PoCL 3.1 is not.
  if (context_.dialect() != Dialect::kCuda && context_.dialect() != Dialect::kHip) return;
  std::vector<const std::string*> missing;
  {
    const std::lock_guard lock(mutex_);
    std::set<std::string_view> seen;
    for (const std::string* text : texts)
      if (!kernels_.contains(*text) && seen.insert(*text).second) missing.push_back(text);
  }
  const size_t count = std::min<size_t>(missing.size(), std::max(1u, std::thread::hardware_concurrency()));
  if (count < 2) return;
  std::atomic<size_t> next = 0;
  const auto work = [&] {
    for (size_t i = next++; i < missing.size(); i = next++) {
      try {
        get(*missing[i]);
      } catch (const std::exception&) {  // get() fails again where somebody needs the kernel
      }
    }
  };
  std::vector<std::jthread> threads;
  for (size_t i = 1; i < count; ++i) threads.emplace_back(work);
  work();
}

}  // namespace transom::gpu
