// SPDX-License-Identifier: Apache-2.0
// What a generated kernel is made of: a tile program without its extents, strides and addresses. Two fusions with equal
// recipes share one kernel, whatever their shapes.
#pragma once

#include <string>
#include <vector>

#include "cpu/tiles/tile_instructions.h"

namespace transom::cpu::codegen {

struct Recipe {
  struct Leaf {
    enum Kind {
      kMemory,    // element i lies at pointer[i]
      kRepeated,  // every element is pointer[0]
      kConstant
    } kind;
    transom_dtype dtype;  // as it lies in memory
    uint16_t slot;
    uint64_t constant = 0;  // the bits of one lane
  };
  struct Instruction {
    Opcode opcode;
    uint16_t y, a, b, c;  // slots; 0xFFFF: none
  };
  struct Result {
    transom_dtype dtype;
    uint16_t slot;
  };

  std::vector<Leaf> leaves;
  std::vector<Instruction> instructions;
  std::vector<Result> results;

  // All of it as bytes, for comparing and hashing.
  std::string key() const;
};

// The functions of the vector table that a kernel calls, since no instructions say them: their addresses stand behind
// those of the leaves and the results in the table of pointers that a kernel is given.
std::vector<Opcode> called_functions(const Recipe& recipe);

// Elements that a kernel works on at once; their number must divide the count that it is called with.
size_t vector_width();

// The kernel as the text of one LLVM module: `void kernel(ptr table, i64 count)`, with count > 0. The table holds the
// addresses of the leaves (constants too, unused), of the results and of called_functions.
std::string generate(const Recipe& recipe);

}  // namespace transom::cpu::codegen
