// SPDX-License-Identifier: Apache-2.0
#include "cpu/codegen/recipe.h"

#include <algorithm>

#include "cpu/codegen/instructions.h"

namespace transom::cpu::codegen {
namespace {

template <typename T>
void append(std::string& bytes, T value) {
  bytes.append(reinterpret_cast<const char*>(&value), sizeof value);
}

void append(std::string& bytes, Opcode opcode) {
  append(bytes, static_cast<uint8_t>(opcode.kind));
  append(bytes, static_cast<uint8_t>(opcode.operation));
  append(bytes, static_cast<uint8_t>(opcode.from));
  append(bytes, static_cast<uint8_t>(opcode.to));
}

}  // namespace

std::string Recipe::key() const {
  std::string bytes;
  bytes.reserve(32 + leaves.size() * 12 + instructions.size() * 12 + results.size() * 4);
  append(bytes, static_cast<uint32_t>(leaves.size()));
  append(bytes, static_cast<uint32_t>(instructions.size()));
  append(bytes, static_cast<uint32_t>(results.size()));
  for (const Leaf& leaf : leaves) {
    append(bytes, static_cast<uint8_t>(leaf.kind));
    append(bytes, static_cast<uint8_t>(leaf.dtype));
    append(bytes, leaf.slot);
    append(bytes, leaf.constant);
  }
  for (const Instruction& instruction : instructions) {
    append(bytes, instruction.opcode);
    for (const uint16_t slot : {instruction.y, instruction.a, instruction.b, instruction.c}) append(bytes, slot);
  }
  for (const Result& result : results) {
    append(bytes, static_cast<uint8_t>(result.dtype));
    append(bytes, result.slot);
  }
  return bytes;
}

std::vector<Opcode> called_functions(const Recipe& recipe) {
  std::vector<Opcode> called;
  for (const Recipe::Instruction& instruction : recipe.instructions)
    if (is_call(instruction.opcode) && std::find(called.begin(), called.end(), instruction.opcode) == called.end())
      called.push_back(instruction.opcode);
  return called;
}

}  // namespace transom::cpu::codegen
