// SPDX-License-Identifier: Apache-2.0
// Values made by a thread of their own, some ahead of their use: rows are read, tokenised and collated while a device
// computes with those before them.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>
#include <utility>
#include <variant>

#include "base/threads/threads.h"

namespace transom {

template <typename Value>
class Prefetcher {
 public:
  // make(0), make(1) ... make(count - 1) are called in this order, one at a time, so that at most `ahead` values wait.
  // With a single value, or a single thread for all (thread_count), each is made when it is asked for.
  Prefetcher(int64_t count, std::function<Value(int64_t)> make, int64_t ahead = 2)
      : count_(count), ahead_(ahead), make_(std::move(make)) {
    if (count > 1 && thread_count() > 1) thread_ = std::thread([this] { work(); });
  }
  // Waits for the value that is being made; those that nobody asked for are lost, and so are their errors.
  ~Prefetcher() {
    {
      const std::lock_guard lock(mutex_);
      stopping_ = true;
    }
    changed_.notify_all();
    if (thread_.joinable()) thread_.join();
  }
  Prefetcher(const Prefetcher&) = delete;
  Prefetcher& operator=(const Prefetcher&) = delete;

  // How many are still to come.
  int64_t left() const { return count_ - used_; }

  // The next value; where making it threw, that is thrown here, and there is no value after it.
  Value next() {
    const int64_t index = used_++;
    if (!thread_.joinable()) return make_(index);
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return !made_.empty(); });
    if (const auto* error = std::get_if<std::exception_ptr>(&made_.front())) std::rethrow_exception(*error);
    Value value = std::get<Value>(std::move(made_.front()));
    made_.pop_front();
    lock.unlock();
    changed_.notify_all();
    return value;
  }

 private:
  using Made = std::variant<Value, std::exception_ptr>;

  Made made(int64_t index) const {
    try {
      return make_(index);
    } catch (...) {
      return std::current_exception();
    }
  }

  void work() {
    for (int64_t index = 0; index < count_; ++index) {
      {
        std::unique_lock lock(mutex_);
        changed_.wait(lock, [&] { return stopping_ || static_cast<int64_t>(made_.size()) < ahead_; });
        if (stopping_) return;
      }
      Made one = made(index);
      const bool failed = std::holds_alternative<std::exception_ptr>(one);
      {
        const std::lock_guard lock(mutex_);
        made_.push_back(std::move(one));
      }
      changed_.notify_all();
      if (failed) return;
    }
  }

  const int64_t count_, ahead_;
  const std::function<Value(int64_t)> make_;
  int64_t used_ = 0;
  std::mutex mutex_;  // guards what follows
  std::condition_variable changed_;
  std::deque<Made> made_;
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace transom
