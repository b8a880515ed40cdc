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
  // False after stop(): the task is dropped. Long tasks leave a thread for others, where there is more than one.
  bool post(std::function<void()> task, bool is_long = false);
  void stop();

 private:
  void work();
  std::mutex mutex_;
  std::condition_variable changed_;
  bool may_take_long() const;
  std::deque<std::function<void()>> tasks_, long_tasks_;
  size_t running_long_ = 0, most_long_;
  bool long_next_ = true;  // both kinds take turns where both wait
  bool stopping_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace transom::serve
