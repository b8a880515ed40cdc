// SPDX-License-Identifier: Apache-2.0
// A cache that threads share: the least recently used entries go when their bytes exceed a limit, and a value that is
// being made holds up nobody but those who ask for the same one.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <functional>
#include <future>
#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/terminal/log.h"
#include "transom/caches.h"

namespace transom {

// What caches may hold each; see set_cache_limit.
size_t cache_limit();
void set_limit_of_caches(size_t bytes);  // those that are full already are to be trimmed

// Value has memory_bytes(). Safe from all threads.
template <typename Key, typename Value, typename Hash = std::hash<Key>>
class SharedCache {
 public:
  explicit SharedCache(std::string name) : name_(std::move(name)) {}

  // The value of this key, made by the first who asks for it; others who ask for it meanwhile wait, and get the same
  // value or the same exception. After an exception the next one makes it again.
  template <typename Make>
  std::shared_ptr<Value> find(const Key& key, const Make& make) {
    std::promise<std::shared_ptr<Value>> promise;
    std::shared_future<std::shared_ptr<Value>> known;
    {
      const std::lock_guard lock(mutex_);
      if (const auto found = places_.find(key); found != places_.end()) {
        entries_.splice(entries_.begin(), entries_, found->second);
        ++use_.hits;
        known = found->second->value;
      } else {
        entries_.push_front({key, promise.get_future().share(), 0, false});
        places_.emplace(key, entries_.begin());
        ++use_.misses;
      }
    }
    if (known.valid()) return known.get();
    std::shared_ptr<Value> value;
    try {
      value = make();
    } catch (...) {
      {
        const std::lock_guard lock(mutex_);
        if (const auto found = places_.find(key); found != places_.end()) {
          entries_.erase(found->second);
          places_.erase(found);
        }
      }
      promise.set_exception(std::current_exception());
      throw;
    }
    promise.set_value(value);
    resized(key, *value);
    return value;
  }

  // Counts the bytes of a value anew, if it is still here, and lets go of others where there are too many.
  void resized(const Key& key, const Value& value) {
    Entries dropped;  // destroyed without the lock
    CacheUse now;
    {
      const std::lock_guard lock(mutex_);
      const auto found = places_.find(key);
      if (found == places_.end()) return;
      Entry& entry = *found->second;
      // The value's own entry may be gone, and another asker's have its place, perhaps not made yet.
      if (entry.value.wait_for(std::chrono::seconds(0)) != std::future_status::ready) return;
      if (entry.value.get().get() != &value) return;
      bytes_ -= entry.bytes;
      entry.bytes = value.memory_bytes();
      entry.ready = true;
      bytes_ += entry.bytes;
      evict(dropped);
      now = counted();
    }
    if (log_topic("caches")) say(now);
  }

  // The newest entry stays, however large it is.
  void trim() {
    Entries dropped;
    const std::lock_guard lock(mutex_);
    evict(dropped);
  }

  // Forgets the entries for which `wanted` is true, and returns their values. Who holds one keeps it.
  std::vector<std::shared_ptr<Value>> erase_if(
      const std::function<bool(const Key&, const std::shared_ptr<Value>&)>& wanted) {
    Entries dropped;  // destroyed without the lock
    std::vector<std::shared_ptr<Value>> values;
    const std::lock_guard lock(mutex_);
    for (auto entry = entries_.begin(); entry != entries_.end();) {
      const auto next = std::next(entry);
      if (entry->ready && wanted(entry->key, entry->value.get())) {
        values.push_back(entry->value.get());
        drop(entry, dropped);
      }
      entry = next;
    }
    return values;
  }

  CacheUse use() const {
    const std::lock_guard lock(mutex_);
    return counted();
  }

 private:
  struct Entry {
    Key key;
    std::shared_future<std::shared_ptr<Value>> value;
    size_t bytes;
    bool ready;  // false: it is being made, and stays
  };
  using Entries = std::list<Entry>;

  CacheUse counted() const {
    CacheUse use = use_;
    use.entries = entries_.size();
    use.bytes = bytes_;
    use.limit = cache_limit();
    return use;
  }

  void drop(typename Entries::iterator entry, Entries& dropped) {
    bytes_ -= entry->bytes;
    places_.erase(entry->key);
    dropped.splice(dropped.end(), entries_, entry);
  }

  void evict(Entries& dropped) {
    const size_t limit = cache_limit();
    for (auto entry = entries_.end(); bytes_ > limit && entry != entries_.begin();) {
      --entry;
      if (entry == entries_.begin()) return;
      const auto older = std::next(entry);
      if (!entry->ready) continue;
      drop(entry, dropped);
      ++use_.evictions;
      entry = older;
    }
  }

  void say(const CacheUse& now) const {
    log(LogLevel::kInfo, name_ + ": " + std::to_string(now.entries) + " entries, " + std::to_string(now.bytes >> 10) +
                             " of " + std::to_string(now.limit >> 10) + " KiB; " + std::to_string(now.hits) +
                             " hits, " + std::to_string(now.misses) + " misses, " + std::to_string(now.evictions) +
                             " evictions");
  }

  const std::string name_;
  mutable std::mutex mutex_;
  Entries entries_;  // the most recently used first
  std::unordered_map<Key, typename Entries::iterator, Hash> places_;
  size_t bytes_ = 0;
  CacheUse use_;
};

}  // namespace transom
