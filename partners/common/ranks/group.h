// SPDX-License-Identifier: Apache-2.0
// Ranks in several processes, or threads of one: how they meet, and collectives on host memory over the connections
// between them, for the libraries that emulate those of the vendors.
#pragma once

#include <functional>
#include <vector>

#include "sockets.h"

namespace emulator_common {

// Where the ranks of a group-to-be find each other; part of its unique id.
struct Meeting {
  uint64_t nonce = 0;
  Endpoint endpoint;
};

// Opens a meeting point at this endpoint (port 0: any) and serves it from a thread of its own.
Meeting open_meeting(const Endpoint& endpoint, uint64_t nonce, double seconds);
// With a nonce that nobody else has.
Meeting open_meeting(uint32_t address, double seconds);

// Combines what all ranks have, in the order of the ranks, into `out`. Counts are elements.
using Combine = std::function<void(const std::vector<const char*>& parts, char* out, uint64_t count)>;

class Group {
 public:
  // Meets the other ranks; no wait takes longer than `seconds`. Throws GroupError, as all functions do.
  Group(const Meeting& meeting, int rank, int size, uint32_t address, double seconds);

  int rank() const { return rank_; }
  int size() const { return size_; }

  // `element` is the bytes of one. Each element is combined once, by one rank, so that all ranks get the same bits.
  void all_reduce(char* send, char* receive, uint64_t count, uint64_t element, const Combine& combine);
  void reduce(char* send, char* receive, uint64_t count, uint64_t element, const Combine& combine, int root);
  void reduce_scatter(char* send, char* receive, uint64_t count, uint64_t element, const Combine& combine);
  void all_gather(char* send, char* receive, uint64_t bytes);
  void broadcast(char* send, char* receive, uint64_t bytes, int root);
  void all_to_all(char* send, char* receive, uint64_t bytes_for_each);
  void barrier();
  void point_to_point(const std::vector<Message>& sends, const std::vector<Message>& receives);

  // Ends all connections; waits of other threads on them end. Safe from any thread.
  void shut();

 private:
  void exchange_all(const std::vector<Message>& sends, const std::vector<Message>& receives);
  std::vector<const char*> parts_of(const char* own, const std::vector<std::vector<char>>& others) const;

  const int rank_, size_;
  const double seconds_;
  std::vector<Socket> sockets_;
};

}  // namespace emulator_common
