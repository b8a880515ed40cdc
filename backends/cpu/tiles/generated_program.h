// SPDX-License-Identifier: Apache-2.0
// What of a tile program becomes generated code, and how that code gets at the program's leaves.
#pragma once

#include "cpu/tiles/tile_program.h"

namespace transom::cpu {

// What the program computes, wherever its leaves lie.
codegen::Recipe recipe_of(const TileProgram& program);

// Finds the kernel of the program, if code is generated at all and pays for this program.
std::shared_ptr<codegen::GeneratedKernel> find_generated(const TileProgram& program);

}  // namespace transom::cpu
