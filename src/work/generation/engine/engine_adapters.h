// SPDX-License-Identifier: Apache-2.0
// The adapters that requests may name. They come and go while requests run.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "transom/computing.h"

namespace transom {

// What a request has of its adapter for as long as it lives.
struct RequestAdapter {
  size_t number = 0;                      // 0: none; of an adapter the same number is never given again
  std::shared_ptr<const AdapterSet> set;  // null: none
};

// Any thread.
class EngineAdapters {
 public:
  // Throws Error for a name that is empty, and, unless it `replaces`, for one that is known.
  void add(const std::string& name, std::shared_ptr<const AdapterSet> set, bool replaces);
  // Who has it keeps it. Throws Error for a name that is not known.
  void remove(const std::string& name);
  // The name "" is that of none. Throws Error for a name that is not known.
  RequestAdapter find(const std::string& name) const;
  // Of all that are known.
  std::set<size_t> numbers() const;

 private:
  [[noreturn]] void refuse_unknown(const std::string& name) const;
  mutable std::mutex mutex_;
  std::map<std::string, RequestAdapter> known_;
  size_t last_ = 0;
};

}  // namespace transom
