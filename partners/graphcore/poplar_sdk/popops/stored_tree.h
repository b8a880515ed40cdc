// SPDX-License-Identifier: Apache-2.0
// Element-wise trees as bytes, of executables that are stored.
#pragma once

#include <memory>

#include "popops/Expr.hpp"
#include "simulator/bytes.h"

namespace ipu_emulator {

void write_tree(const popops::expr::Expr& tree, Writer& to);
// Refuses what is no tree, and one of more than a thousand levels.
std::unique_ptr<const popops::expr::Expr> read_tree(Reader& from);

}  // namespace ipu_emulator
