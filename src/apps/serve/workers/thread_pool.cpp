// SPDX-License-Identifier: Apache-2.0
#include "apps/serve/workers/thread_pool.h"

namespace transom::serve {

ThreadPool::ThreadPool(size_t threads) : most_long_(threads > 1 ? threads - 1 : 1) {
  for (size_t i = 0; i < threads; ++i) threads_.emplace_back([this] { work(); });
}

ThreadPool::~ThreadPool() { stop(); }

bool ThreadPool::post(std::function<void()> task, bool is_long) {
  {
    const std::lock_guard lock(mutex_);
    if (stopping_) return false;
    (is_long ? long_tasks_ : tasks_).push_back(std::move(task));
  }
  changed_.notify_one();
  return true;
}

void ThreadPool::stop() {
  std::deque<std::function<void()>> dropped, dropped_long;
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
    dropped.swap(tasks_);
    dropped_long.swap(long_tasks_);
  }
  changed_.notify_all();
  for (std::thread& thread : threads_)
    if (thread.joinable()) thread.join();
}

bool ThreadPool::may_take_long() const { return !long_tasks_.empty() && running_long_ < most_long_; }

void ThreadPool::work() {
  while (true) {
    std::function<void()> task;
    bool is_long = false;
    {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [this] { return stopping_ || !tasks_.empty() || may_take_long(); });
      if (stopping_) return;
      is_long = may_take_long() && (tasks_.empty() || long_next_);
      long_next_ = !is_long;
      auto& from = is_long ? long_tasks_ : tasks_;
      task = std::move(from.front());
      from.pop_front();
      running_long_ += is_long;
    }
    task();
    task = nullptr;
    if (!is_long) continue;
    {
      const std::lock_guard lock(mutex_);
      --running_long_;
    }
    changed_.notify_one();
  }
}

}  // namespace transom::serve
