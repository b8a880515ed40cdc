// SPDX-License-Identifier: Apache-2.0
#include "cpu/codegen/executable_memory.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cstring>

namespace transom::cpu::codegen {

void* make_executable(const Code& code) {
  const size_t page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  const size_t bytes = (code.bytes.size() + page - 1) / page * page;
  if (bytes == 0 || code.entry >= code.bytes.size()) return nullptr;
  void* memory = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return nullptr;
  std::memcpy(memory, code.bytes.data(), code.bytes.size());
  if (::mprotect(memory, bytes, PROT_READ | PROT_EXEC) != 0) {
    ::munmap(memory, bytes);
    return nullptr;
  }
  return static_cast<std::byte*>(memory) + code.entry;
}

}  // namespace transom::cpu::codegen
