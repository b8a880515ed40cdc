// SPDX-License-Identifier: Apache-2.0
// The four queues of a card, which work side by side: compute, copies in, copies out, collectives. Work that touches
// the same memory is kept in order by events between them; all else overlaps.
#pragma once

#include <algorithm>
#include <array>
#include <span>
#include <vector>

#include "hpu/synapse/synapse_library.h"

namespace transom::hpu {

enum class Lane : size_t { kCompute, kIn, kOut, kNetwork };
constexpr size_t kLanes = 4;

// A point in each lane: how much of the work issued to it is meant.
using Tickets = std::array<uint64_t, kLanes>;
inline void raise(Tickets& tickets, const Tickets& to) {
  for (size_t i = 0; i < kLanes; ++i) tickets[i] = std::max(tickets[i], to[i]);
}

// A piece of device memory and the last work that reads and writes it.
struct Block {
  uint64_t address = 0;
  size_t bytes = 0;
  Tickets read{}, written{};
};

// Not thread-safe: the device locks around it.
class Lanes {
 public:
  Lanes(const SynapseLibrary& library, synDeviceId device);
  ~Lanes();
  Lanes(const Lanes&) = delete;
  Lanes& operator=(const Lanes&) = delete;

  // Gives `work` the stream of the lane, once all that it must come after has been put before it. Returns its ticket.
  template <typename Work>
  uint64_t submit(Lane lane, std::span<Block* const> reads, std::span<Block* const> writes, Work&& work) {
    Tickets after = barrier_;
    for (const Block* block : reads) raise(after, block->written);
    for (const Block* block : writes) {
      raise(after, block->written);
      raise(after, block->read);
    }
    work(begin(lane, after));
    const uint64_t ticket = end(lane);
    for (Block* block : reads) block->read[index(lane)] = ticket;
    for (Block* block : writes) block->written[index(lane)] = ticket;
    return ticket;
  }

  // The host waits; errors of the work come out here.
  void wait(const Tickets& tickets);
  void wait_for_all() { wait(issued_); }
  void settle() noexcept;              // the same before an end: what fails is tried again once, and left
  bool query(const Tickets& tickets);  // whether wait() would not
  bool done(Lane lane, uint64_t ticket) const { return completed_[index(lane)] >= ticket; }

  // All work issued from now on comes after the tickets.
  void order_after(const Tickets& tickets) { raise(barrier_, tickets); }
  synStreamHandle stream(Lane lane) const { return streams_[index(lane)]; }

 private:
  static constexpr uint64_t kEvents = 64;  // a lane's ring: an older ticket is waited for by a later event
  void release();
  static size_t index(Lane lane) { return static_cast<size_t>(lane); }
  synStreamHandle begin(Lane lane, const Tickets& after);
  uint64_t end(Lane lane);

  const SynapseLibrary& library_;
  std::array<synStreamHandle, kLanes> streams_{};
  std::array<std::vector<synEventHandle>, kLanes> events_;
  Tickets issued_{}, completed_{}, barrier_{};
  std::array<Tickets, kLanes> waited_{};  // [lane]: what it already comes after
};

}  // namespace transom::hpu
