// SPDX-License-Identifier: Apache-2.0
// A program over several IPUs as a pipeline: a micro-batch enters as soon as the first IPU is free, so that each IPU
// works on another one. The program itself runs one micro-batch after the other; this is what its steps cost when they
// overlap.
#pragma once

#include "simulator/compile.h"

namespace ipu_emulator {

struct Pipeline {
  std::vector<uint64_t> of_ipu;  // cycles that one micro-batch takes on each IPU, waiting for links included
  std::vector<uint32_t> visits;  // IPUs in the order in which a micro-batch comes to them
  uint64_t slowest = 0;          // cycles between two micro-batches

  // Bytes by tile: the weights, sums of gradients, what micro-batches under way need later, and what one needs at a
  // time; code as in the program.
  std::vector<TileMemory> tiles;
  std::vector<uint64_t> accumulators, stashed;  // of them

  // Filling and draining included; nothing of the host, and no update of weights.
  uint64_t cycles(uint64_t micro_batches) const { return (micro_batches + visits.size() - 1) * slowest; }
};

// What leaves over streams is added up over micro-batches, on its tile.
Pipeline pipeline_of(const Compiled& compiled, size_t program);

}  // namespace ipu_emulator
