// SPDX-License-Identifier: Apache-2.0
// The memory of other ranks on this machine, read at one go (Linux's process_vm_readv): one copy instead of those into
// a socket and out of it. Systems may forbid it (another user, containers, Yama): each pair of ranks tries before.
#pragma once

#include <cstddef>
#include <cstdint>

namespace transom::cpu {

// What a rank says of itself to the others, who try to read it. It must stay where it is while they do.
struct Greeting {
  int64_t process = 0;
  uint64_t place = 0;  // of `word`, in the memory of the process
  uint64_t word = 0;   // drawn at random, so that another machine's process of the same number is not taken for it
  int64_t file = -1;   // of the process: the memory of NearMail
};

// Fills a greeting with this process, the greeting's own place, and a random word.
void fill_greeting(Greeting& mine);
// Whether the rank that sent this is one whose memory can be read.
bool is_near(const Greeting& theirs);

// Throws std::runtime_error where the process is gone, or has no such memory.
void read_memory(int64_t process, uint64_t place, std::byte* to, size_t bytes);

}  // namespace transom::cpu
