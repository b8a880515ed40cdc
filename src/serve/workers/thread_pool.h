// SPDX-License-Identifier: Apache-2.0
// Threads that parse requests, tokenise and write answers, so that neither the connections nor the models wait for it.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace transom::serve {

// Tasks must not throw and must not wait for each other. The destructor drops what has not begun.
class ThreadPool {
 public:
  explicit ThreadPool(size_t threads);
  ~ThreadPool();
  // False after stop(): the task is dropped.
  bool post(std::function<void()> task);
  void stop();

 private:
  void work();
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> tasks_;
  bool stopping_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace transom::serve
