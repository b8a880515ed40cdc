// SPDX-License-Identifier: Apache-2.0
#include "cpu/codegen/executable_memory.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cstring>
#include <utility>

namespace transom::cpu::codegen {

ExecutableMemory::ExecutableMemory(const Code& code) {
  const size_t page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  const size_t bytes = (code.bytes.size() + page - 1) / page * page;
  if (bytes == 0 || code.entry >= code.bytes.size()) return;
  void* memory = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return;
  std::memcpy(memory, code.bytes.data(), code.bytes.size());
  if (::mprotect(memory, bytes, PROT_READ | PROT_EXEC) != 0) {
    ::munmap(memory, bytes);
    return;
  }
  memory_ = memory;
  bytes_ = bytes;
  entry_ = code.entry;
}

ExecutableMemory::~ExecutableMemory() {
  if (memory_) ::munmap(memory_, bytes_);
}

ExecutableMemory::ExecutableMemory(ExecutableMemory&& other) noexcept
    : memory_(std::exchange(other.memory_, nullptr)), bytes_(other.bytes_), entry_(other.entry_) {}

ExecutableMemory& ExecutableMemory::operator=(ExecutableMemory&& other) noexcept {
  std::swap(memory_, other.memory_);
  std::swap(bytes_, other.bytes_);
  std::swap(entry_, other.entry_);
  return *this;
}

}  // namespace transom::cpu::codegen
