// SPDX-License-Identifier: Apache-2.0
// What the id of a communicator says of its transport: for how long its ranks wait, and by which network they reach
// each other. What they tell each other goes over the host (exchange in device_plugin.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "cpu/collectives/transport.h"

namespace transom::cpu {

// As the id carries it.
struct GroupId {
  uint64_t nonce = 0;    // of one communicator
  uint32_t address = 0;  // of the server of the rank that made the id: IPv4, in network order
  uint32_t timeout = 0;  // seconds for which ranks wait for each other
};
static_assert(sizeof(GroupId) == 16);

// Throws std::runtime_error where the address is none.
GroupId make_group_id(const GroupOptions& options);

// What it holds in the bytes of an id, and back.
void write_id(const GroupId& group, unsigned char* id, size_t bytes);
GroupId read_id(const unsigned char* id, size_t bytes);

// The address of this machine by which the server of the id sees it ("127.0.0.1").
std::string own_address(const GroupId& group);

}  // namespace transom::cpu
