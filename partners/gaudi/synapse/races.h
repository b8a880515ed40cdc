// SPDX-License-Identifier: Apache-2.0
// Finds accesses of two streams to the same bytes, one of them a write, that no event and no wait of the host orders.
// The finding does not depend on what really ran first.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "stream.h"

namespace synapse_emulator {

class Races {
 public:
  // Stream `id` will run work `number` on `ranges`. Says what it collides with, or "".
  std::string access(uint64_t id, uint64_t number, const std::vector<Range>& ranges, const char* what);
  // What stream `id` has seen so far: what a marker carries.
  std::map<uint64_t, uint64_t> seen(uint64_t id, uint64_t number);
  // Stream `id` waits for a marker.
  void ordered(uint64_t id, const std::map<uint64_t, uint64_t>& seen);
  // The host waits for a marker; all that is enqueued later comes after it.
  void host_ordered(const std::map<uint64_t, uint64_t>& seen);
  void forget(uint64_t id);
  // Work that may still use a part of [begin, end) as far as the host knows: "" or what.
  std::string in_use(uint64_t begin, uint64_t end);
  void reset();

 private:
  struct Access {
    uint64_t stream, number;
    std::vector<Range> ranges;
    std::string what;
  };
  bool is_after(uint64_t stream, const Access& earlier);

  std::mutex mutex_;
  std::map<uint64_t, std::map<uint64_t, uint64_t>> clocks_;  // stream -> what it has seen of the others
  std::map<uint64_t, uint64_t> host_;
  std::deque<Access> accesses_;
};

}  // namespace synapse_emulator
