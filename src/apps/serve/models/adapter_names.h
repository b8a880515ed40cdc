// SPDX-License-Identifier: Apache-2.0
// The names of a model's adapters, which may come and go while others look at them.
#pragma once

#include <algorithm>
#include <mutex>
#include <string>
#include <vector>

namespace transom::serve {

// Any thread.
class AdapterNames {
 public:
  std::vector<std::string> list() const {
    const std::lock_guard lock(mutex_);
    return names_;
  }
  bool has(const std::string& name) const {
    const std::lock_guard lock(mutex_);
    return std::find(names_.begin(), names_.end(), name) != names_.end();
  }
  void add(const std::string& name) {
    const std::lock_guard lock(mutex_);
    if (std::find(names_.begin(), names_.end(), name) == names_.end()) names_.push_back(name);
  }
  void remove(const std::string& name) {
    const std::lock_guard lock(mutex_);
    std::erase(names_, name);
  }

 private:
  mutable std::mutex mutex_;
  std::vector<std::string> names_;
};

}  // namespace transom::serve
