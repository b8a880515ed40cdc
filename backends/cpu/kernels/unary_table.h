// SPDX-License-Identifier: Apache-2.0
// The results of a tile program for every number of 16 bits, where it reads one such tensor and costly functions stand
// between that and a 16-bit result (gelu in bf16): looking results up takes less time than computing them, and gives
// the same bits, since the program itself fills the table.
#pragma once

#include <memory>
#include <mutex>
#include <vector>

#include "cpu/tiles/tile_program.h"

namespace transom::cpu {

class UnaryTable {
 public:
  // Shared by all programs that compute the same; null where a program is none of those, or has too few elements.
  static std::shared_ptr<UnaryTable> find(const TileProgram& program);

  // Must have been called before the first look_up.
  void fill(const TileProgram& program);
  // y may be x.
  void look_up(uint16_t* y, const uint16_t* x, int64_t n) const;

 private:
  std::once_flag filled_;
  std::vector<uint16_t> results_;
};

}  // namespace transom::cpu
