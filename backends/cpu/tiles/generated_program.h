// SPDX-License-Identifier: Apache-2.0
// What of a tile program becomes generated code, and how that code gets at the program's leaves.
#pragma once

#include "cpu/tiles/tile_program.h"

namespace transom::cpu {

// How a leaf stands in memory when a tile of a generated kernel begins.
enum class Access {
  kConstant,     // in the code
  kDirect,       // contiguous over the whole program
  kScalar,       // one element for all
  kRow,          // contiguous up to the end of the innermost row
  kRowRepeated,  // one element up to the end of the innermost row
  kStaged        // brought together in the thread's memory first, at most kLargestTile elements
};
Access access_of(const TileProgram& program, const Leaf& leaf);

// What the program computes, wherever its leaves lie.
codegen::Recipe recipe_of(const TileProgram& program);

// Finds the kernel of the program, if code is generated at all and pays for this program.
std::shared_ptr<codegen::GeneratedKernel> find_generated(const TileProgram& program);

}  // namespace transom::cpu
