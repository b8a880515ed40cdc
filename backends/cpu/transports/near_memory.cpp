// SPDX-License-Identifier: Apache-2.0
#include "cpu/transports/near_memory.h"

#include <sys/uio.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <random>
#include <stdexcept>
#include <string>

namespace transom::cpu {
namespace {

// 0, or the number of an error.
int try_to_read(int64_t process, uint64_t place, std::byte* to, size_t bytes) {
  while (bytes > 0) {
    const iovec here{to, bytes}, there{reinterpret_cast<void*>(static_cast<uintptr_t>(place)), bytes};
    const ssize_t got = ::process_vm_readv(static_cast<pid_t>(process), &here, 1, &there, 1, 0);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return got < 0 ? errno : EFAULT;
    to += got;
    place += static_cast<uint64_t>(got);
    bytes -= static_cast<size_t>(got);
  }
  return 0;
}

}  // namespace

void fill_greeting(Greeting& mine) {
  std::random_device random;
  mine.process = ::getpid();
  mine.place = reinterpret_cast<uintptr_t>(&mine.word);
  mine.word = (static_cast<uint64_t>(random()) << 32) | random();
}

bool is_near(const Greeting& theirs) {
  uint64_t word = 0;
  return theirs.process > 0 &&
         try_to_read(theirs.process, theirs.place, reinterpret_cast<std::byte*>(&word), sizeof word) == 0 &&
         word == theirs.word;
}

void read_memory(int64_t process, uint64_t place, std::byte* to, size_t bytes) {
  if (const int error = try_to_read(process, place, to, bytes))
    throw std::runtime_error("reading the memory of process " + std::to_string(process) + ": " + std::strerror(error));
}

}  // namespace transom::cpu
