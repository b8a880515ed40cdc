// SPDX-License-Identifier: Apache-2.0
// A place in a group of processes. Collectives are carried out by a thread of the communicator's own, in order, while
// the device computes; streams, events and buffers know the last one that they must wait for.
#pragma once

#include <atomic>
#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "cpu/collectives/transport.h"
#include "cpu/device.h"

namespace transom::cpu {

void add_collectives(transom_plugin& table);

}  // namespace transom::cpu

struct transom_communicator : transom::cpu::Handle {
 public:
  // Returns when all ranks have come.
  transom_communicator(const unsigned char* id, uint32_t rank, uint32_t ranks);
  ~transom_communicator();

  // Queues work(transport) behind what is queued already; the transport is null in a group of one.
  std::shared_ptr<transom::cpu::Completion> submit(std::function<void(transom::cpu::Transport*)> work);
  void abort();
  uint32_t rank() const { return rank_; }
  uint32_t ranks() const { return ranks_; }

 private:
  struct Item {
    std::function<void(transom::cpu::Transport*)> work;
    std::shared_ptr<transom::cpu::Completion> completion;
  };
  void carry_out();

  uint32_t rank_, ranks_;
  std::unique_ptr<transom::cpu::Transport> transport_;
  std::mutex mutex_;
  std::condition_variable wake_;
  std::deque<Item> queue_;
  bool closing_ = false;
  std::string failure_;  // of an earlier collective: nothing works after it
  std::thread worker_;
};
