// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <condition_variable>
#include <mutex>
#include <string>

namespace transom::cpu {

// Whether a piece of work that another thread does is done, and how it ended.
class Completion {
 public:
  // The first call counts.
  void finish(std::string failure) {
    const std::lock_guard lock(mutex_);
    if (done_) return;
    failure_ = std::move(failure);
    done_ = true;
    finished_.notify_all();
  }
  // What went wrong; empty where all is well.
  std::string wait() {
    std::unique_lock lock(mutex_);
    finished_.wait(lock, [&] { return done_; });
    return failure_;
  }
  bool done() {
    const std::lock_guard lock(mutex_);
    return done_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable finished_;
  bool done_ = false;
  std::string failure_;
};

}  // namespace transom::cpu
