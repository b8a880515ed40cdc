// SPDX-License-Identifier: Apache-2.0
// A place in a group of processes. Collectives are carried out by a thread of the communicator's own, in order, while
// the device computes; streams, events and buffers know the last one that they must wait for.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdlib>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "cpu/collectives/transport.h"
#include "cpu/device/device.h"
#include "transom/plugin/messages.h"

namespace transom::cpu {

void add_collectives(transom_plugin& table);
void add_messages(transom_plugin& table);  // all_to_all, send, receive

// A message, and the buffer that it is in.
struct BufferMessage {
  Message message;
  transom_buffer* buffer;
};

}  // namespace transom::cpu

struct transom_communicator : transom::cpu::Handle {
 public:
  // Returns when all ranks have come.
  transom_communicator(const unsigned char* id, uint32_t rank, uint32_t ranks);
  ~transom_communicator();

  // Queues work(transport) behind what is queued already; the transport is null in a group of one. `buffers`: what the
  // work reads and writes; they are not freed before it is done, or the group is given up.
  std::shared_ptr<transom::cpu::Completion> submit(std::function<void(transom::cpu::Transport*)> work,
                                                   std::vector<transom_buffer*> buffers);
  void abort();
  uint32_t rank() const { return rank_; }
  uint32_t ranks() const { return ranks_; }

  std::optional<transom::backend::MessageGroup<transom::cpu::BufferMessage>> group;

 private:
  struct Item {
    std::function<void(transom::cpu::Transport*)> work;
    std::shared_ptr<transom::cpu::Completion> completion;
    std::vector<transom_buffer*> buffers;
  };
  // Shared with the worker, which may outlive the communicator: what waits for a lost rank inside of a library cannot
  // always be woken.
  struct State {
    std::unique_ptr<transom::cpu::Transport> transport;
    std::mutex mutex;
    std::condition_variable wake;
    std::deque<Item> queue;
    const Item* running = nullptr;
    // Of the buffers of what ran when the group was given up: the worker may still be writing there, and frees it.
    std::vector<std::unique_ptr<std::byte, decltype(&std::free)>> abandoned;
    bool closing = false;
    std::string failure;  // of an earlier collective, or why the group was given up: nothing works after it
  };
  static void carry_out(State& state);

  uint32_t rank_, ranks_;
  std::shared_ptr<State> state_ = std::make_shared<State>();
  std::thread worker_;
};
