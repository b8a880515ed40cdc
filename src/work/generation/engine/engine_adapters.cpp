// SPDX-License-Identifier: Apache-2.0
#include "work/generation/engine/engine_adapters.h"

#include "base/error.h"

namespace transom {
namespace {

// Numbers are roots of texts in the prefix cache, where larger ones have another meaning (paged/block_pool.h).
constexpr size_t kMostNumbers = 1 << 20;

}  // namespace

void EngineAdapters::add(const std::string& name, std::shared_ptr<const AdapterSet> set, bool replaces) {
  const std::lock_guard lock(mutex_);
  if (name.empty() || (!replaces && known_.contains(name)))
    fail("adapters: expected names that are all different, found {} twice or empty", quoted(name));
  if (last_ + 1 >= kMostNumbers) fail("adapters: {} were loaded, which is all that an engine counts", last_);
  known_[name] = {++last_, std::move(set)};
}

void EngineAdapters::remove(const std::string& name) {
  const std::lock_guard lock(mutex_);
  if (known_.erase(name) == 0) refuse_unknown(name);
}

RequestAdapter EngineAdapters::find(const std::string& name) const {
  if (name.empty()) return {};
  const std::lock_guard lock(mutex_);
  const auto known = known_.find(name);
  if (known == known_.end()) refuse_unknown(name);
  return known->second;
}

std::set<size_t> EngineAdapters::numbers() const {
  const std::lock_guard lock(mutex_);
  std::set<size_t> numbers;
  for (const auto& [name, adapter] : known_) numbers.insert(adapter.number);
  return numbers;
}

void EngineAdapters::refuse_unknown(const std::string& name) const {
  std::vector<std::string> names;
  for (const auto& [each, adapter] : known_) names.push_back(each);
  fail("adapter: {} is not among the {} of this engine{}", quoted(name), names.size(), did_you_mean(name, names));
}

}  // namespace transom
