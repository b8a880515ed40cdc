// SPDX-License-Identifier: Apache-2.0
#include "threads.h"

#include <algorithm>
#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <thread>

#include "../configuration.h"

namespace synapse_emulator {
namespace {

struct Loop {
  const std::function<void(int64_t, int64_t)>* body;
  int64_t count, piece;
  std::mutex mutex;
  std::condition_variable done;
  int64_t next = 0, finished = 0;

  // Runs pieces until none is left.
  void help() {
    std::unique_lock lock(mutex);
    while (next < count) {
      const int64_t begin = next;
      next = std::min(count, next + piece);
      const int64_t end = next;
      lock.unlock();
      (*body)(begin, end);
      lock.lock();
      finished += end - begin;
      if (finished == count) done.notify_all();
    }
  }
};

class Pool {
 public:
  explicit Pool(int threads) {
    for (int i = 1; i < threads; ++i) std::thread([this] { serve(); }).detach();  // until the process ends
  }
  void run(const std::shared_ptr<Loop>& loop, int64_t helpers) {
    {
      const std::lock_guard lock(mutex_);
      for (int64_t i = 0; i < helpers; ++i) queue_.push_back(loop);
    }
    waiting_.notify_all();
    loop->help();
    std::unique_lock lock(loop->mutex);
    loop->done.wait(lock, [&] { return loop->finished == loop->count; });
  }

 private:
  void serve() {
    for (;;) {
      std::shared_ptr<Loop> loop;
      {
        std::unique_lock lock(mutex_);
        waiting_.wait(lock, [&] { return !queue_.empty(); });
        loop = std::move(queue_.front());
        queue_.pop_front();
      }
      loop->help();
    }
  }
  std::mutex mutex_;
  std::condition_variable waiting_;
  std::deque<std::shared_ptr<Loop>> queue_;
};

}  // namespace

void parallel_for(int64_t count, int64_t grain, const std::function<void(int64_t, int64_t)>& f) {
  const int threads = configuration().threads;
  const int64_t pieces = std::min<int64_t>(threads * 4, (count + grain - 1) / std::max<int64_t>(grain, 1));
  if (threads <= 1 || pieces <= 1) {
    if (count > 0) f(0, count);
    return;
  }
  static Pool& pool = *new Pool(threads);  // its threads never end
  auto loop = std::make_shared<Loop>();
  loop->body = &f;
  loop->count = count;
  loop->piece = (count + pieces - 1) / pieces;
  pool.run(loop, std::min<int64_t>(threads, pieces) - 1);
}

}  // namespace synapse_emulator
