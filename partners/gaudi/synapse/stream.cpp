// SPDX-License-Identifier: Apache-2.0
#include "stream.h"

#include "call.h"

namespace synapse_emulator {

Stream::Stream(uint64_t number, bool deferred) : id(number), deferred_(deferred), worker_([this] { run(); }) {}

Stream::~Stream() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
    released_ = submitted_;
  }
  changed_.notify_all();
  // The last owner may be the work of another stream, never of this one.
  worker_.join();
}

uint64_t Stream::submit(std::function<void()> work, std::vector<std::shared_ptr<Pages>> keep) {
  uint64_t number;
  {
    const std::lock_guard lock(mutex_);
    queue_.push_back({std::move(work), std::move(keep)});
    number = ++submitted_;
    if (!deferred_) released_ = submitted_;
  }
  changed_.notify_all();
  return number;
}

int Stream::wait(uint64_t number) {
  std::unique_lock lock(mutex_);
  if (released_ < number) {
    released_ = number;
    changed_.notify_all();
  }
  changed_.wait(lock, [&] { return completed_ >= number; });
  return status_;
}

int Stream::query(uint64_t number) {
  const std::lock_guard lock(mutex_);
  if (released_ < number) {
    released_ = number;
    changed_.notify_all();
  }
  return completed_ < number ? int{synBusy} : status_;
}

uint64_t Stream::submitted() const {
  const std::lock_guard lock(mutex_);
  return submitted_;
}
uint64_t Stream::completed() const {
  const std::lock_guard lock(mutex_);
  return completed_;
}
std::string Stream::error() const {
  const std::lock_guard lock(mutex_);
  return error_;
}

void Stream::run() {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [&] { return (!queue_.empty() && completed_ < released_) || (stopping_ && queue_.empty()); });
    if (queue_.empty()) return;
    Item item = std::move(queue_.front());
    queue_.pop_front();
    const bool skip = status_ != 0;  // after a failure nothing of the stream runs any more
    lock.unlock();
    int status = 0;
    std::string text;
    try {
      if (!skip) item.work();
    } catch (const Failure& failure) {
      status = failure.status;
      text = failure.text;
    } catch (const Violation& broken) {
      status = broken.status;
      text = broken.text;
      log_violation(broken.rule, broken.text);
    } catch (const std::exception& error) {
      status = synFail;
      text = error.what();
    }
    item = {};
    lock.lock();
    if (status != 0 && status_ == 0) {
      status_ = status;
      error_ = text;
    }
    ++completed_;
    changed_.notify_all();
  }
}

}  // namespace synapse_emulator
