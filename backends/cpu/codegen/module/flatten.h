// SPDX-License-Identifier: Apache-2.0
// An object file of one function as one run of bytes: code and constants side by side, their distances filled in, so
// that it runs wherever it is put. What needs more than that (an address, a function of another library) is refused.
#pragma once

#include <llvm/Support/MemoryBuffer.h>

#include <string>
#include <vector>

namespace transom::cpu::codegen {

struct FlatCode {
  std::vector<char> bytes;
  size_t entry = 0;  // offset of `kernel`
};

// Returns what is in the way, or nothing.
std::string flatten(const llvm::MemoryBuffer& object, FlatCode& code);

}  // namespace transom::cpu::codegen
