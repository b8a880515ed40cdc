// SPDX-License-Identifier: Apache-2.0
// Where the ranks of a communicator exchange their addresses: one of them opens it, all come once with a part for each
// of the others, and each leaves with what the others brought for it. What unknown peers send is refused.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "cpu/collectives/transport.h"

namespace transom::cpu {

// As the id of a communicator carries it.
struct MeetingPoint {
  uint64_t nonce = 0;
  uint32_t address = 0;  // IPv4, in network order
  uint32_t timeout = 0;  // seconds for which ranks wait for each other
  uint16_t port = 0;     // in network order
  uint16_t reserved[3] = {};
};
static_assert(sizeof(MeetingPoint) == 24);

// Opens a meeting, served by a thread of its own until all ranks have come. Throws std::runtime_error.
MeetingPoint open_meeting(const GroupOptions& options);

// A meeting in the bytes of an id, and back.
void write_id(const MeetingPoint& point, unsigned char* id, size_t bytes);
MeetingPoint read_id(const unsigned char* id, size_t bytes);

// The address of this machine by which rank 0 sees it ("127.0.0.1").
std::string own_address(const MeetingPoint& point);

using Bytes = std::vector<char>;

struct Met {
  std::vector<Bytes> parts;  // by rank: what it brought for this one
  uint64_t bytes = 0;        // that came over the network
};
// Brings parts[r] for rank r; there is one for each rank, and most may be empty.
Met meet(const MeetingPoint& point, uint32_t rank, const std::vector<Bytes>& parts);

}  // namespace transom::cpu
