// SPDX-License-Identifier: Apache-2.0
// What is made once for a key and shared: primitives, packed weights. Holds at most so many values, those that were
// asked for last; a value that leaves lives on with those who have it.
#pragma once

#include <cstddef>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <utility>

namespace transom::cpu {

template <typename Key, typename Value>
class LruCache {
 public:
  explicit LruCache(size_t most) : most_(most) {}

  // The value of the key, by `make` if there is none: std::shared_ptr<Value>. Threads that ask for one key at the same
  // time get one value, which one of them makes; those that ask for another key do not wait for it. If `make` throws,
  // so does this, and the next who asks makes it anew.
  template <typename Make>
  std::shared_ptr<Value> find(const Key& key, Make&& make) {
    const std::shared_ptr<Slot> slot = slot_of(key);
    const std::lock_guard lock(slot->mutex);
    if (!slot->value) slot->value = make();
    return slot->value;
  }

  size_t size() const {
    const std::lock_guard lock(mutex_);
    return entries_.size();
  }

 private:
  struct Slot {
    std::mutex mutex;  // held while the value is made
    std::shared_ptr<Value> value;
  };
  struct Entry {
    std::shared_ptr<Slot> slot;
    typename std::list<Key>::iterator place;
  };

  std::shared_ptr<Slot> slot_of(const Key& key) {
    std::shared_ptr<Slot> last;  // ends outside of the lock
    const std::lock_guard lock(mutex_);
    if (const auto found = entries_.find(key); found != entries_.end()) {
      order_.splice(order_.begin(), order_, found->second.place);
      return found->second.slot;
    }
    if (entries_.size() == most_) {
      const auto oldest = entries_.find(order_.back());
      last = std::move(oldest->second.slot);
      entries_.erase(oldest);
      order_.pop_back();
    }
    order_.push_front(key);
    return entries_.emplace(key, Entry{std::make_shared<Slot>(), order_.begin()}).first->second.slot;
  }

  const size_t most_;
  mutable std::mutex mutex_;
  std::list<Key> order_;  // the last asked for first
  std::map<Key, Entry> entries_;
};

}  // namespace transom::cpu
