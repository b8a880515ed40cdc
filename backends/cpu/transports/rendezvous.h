// SPDX-License-Identifier: Apache-2.0
// Where the ranks of a communicator exchange their addresses: one of them opens it, all come once, and each leaves with
// what everybody brought. What unknown peers send is refused.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace transom::cpu {

// As the id of a communicator carries it.
struct MeetingPoint {
  uint64_t nonce = 0;
  uint32_t address = 0;  // IPv4, in network order
  uint16_t port = 0;     // in network order
};

// Opens a meeting, served by a thread of its own until all ranks have come. Throws std::runtime_error.
MeetingPoint open_meeting();

// The address of this machine by which rank 0 sees it ("127.0.0.1").
std::string own_address(const MeetingPoint& point);
// Brings `mine`, and returns what all ranks brought.
std::vector<std::vector<char>> meet(const MeetingPoint& point, uint32_t rank, uint32_t ranks,
                                    const std::vector<char>& mine);

}  // namespace transom::cpu
