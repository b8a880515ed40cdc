// SPDX-License-Identifier: Apache-2.0
// Streams and events. A stream is a queue and a worker of its own; what is enqueued runs later, in order, beside the
// work of other streams. Only events order one stream after another.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "memory.h"

namespace synapse_emulator {

// Bytes that a piece of work reads or writes; addresses of device and host do not overlap.
struct Range {
  uint64_t begin, end;
  bool written;
};

class Stream {
 public:
  // `deferred`: work starts when somebody waits for it.
  Stream(uint64_t id, bool deferred);
  ~Stream();

  // The number of the work in this stream, from 1. `keep` lives until it has run. `work` may throw Failure, which makes
  // this and all later waits fail with its status.
  uint64_t submit(std::function<void()> work, std::vector<std::shared_ptr<Pages>> keep);
  // Starts (if deferred) and waits for work `number`; its status.
  int wait(uint64_t number);
  int wait_all() { return wait(submitted()); }
  // 0, synBusy or the status of a failure. Starts deferred work.
  int query(uint64_t number);
  uint64_t submitted() const;
  uint64_t completed() const;
  std::string error() const;

  const uint64_t id;
  double ready_seconds = 0;  // simulated time at which all that was submitted is done; kept by clock.h
  uint64_t affinity = 0;
  bool used = false;

 private:
  struct Item {
    std::function<void()> work;
    std::vector<std::shared_ptr<Pages>> keep;
  };
  void run();

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Item> queue_;
  uint64_t submitted_ = 0, completed_ = 0, released_ = 0;
  const bool deferred_;
  int status_ = 0;
  std::string error_;
  bool stopping_ = false;
  std::thread worker_;
};

// Where an event was last recorded.
struct Marker {
  std::shared_ptr<Stream> stream;  // null: never
  uint64_t number = 0;
  double seconds = 0;  // simulated
  std::map<uint64_t, uint64_t> seen;
};

struct Event {
  bool collects_time = false;
  Marker marker;
};

}  // namespace synapse_emulator
