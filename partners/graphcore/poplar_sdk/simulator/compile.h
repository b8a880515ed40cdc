// SPDX-License-Identifier: Apache-2.0
// A compiled graph: its steps with their clocks, and the memory of each tile.
#pragma once

#include "poplar/Engine.hpp"
#include "simulator/model.h"

namespace ipu_emulator {

// One step of a program in the bulk synchronous machine: exchange, synchronisation, compute.
struct Phase {
  std::shared_ptr<const Step> step;
  std::string name;
  uint64_t times = 1;                                      // within a repeat
  uint32_t repeat = 0;                                     // which one; 0: none
  uint64_t compute = 0, exchange = 0, sync = 0, host = 0;  // cycles, each the slowest tile's
  uint64_t link = 0;                                       // cycles that data of other IPUs and replicas takes to come
  uint32_t ipu = 0;                                        // that computes
  uint64_t busy = 0;                                       // cycles of compute of all tiles
  uint64_t received = 0;                                   // bytes of all tiles
  uint32_t tiles = 0;                                      // that compute
  uint32_t first_tile = 0;
  std::vector<uint32_t> born, dead;  // variables that exist from it on, and that nobody needs behind it
  uint64_t cycles() const { return times * (compute + exchange + sync + link + host); }
};

// Bytes of one tile.
struct TileMemory {
  uint64_t always_live = 0;  // variables that are needed from run to run
  uint64_t temporary = 0;    // the most that other variables, and what is exchanged, take at one time
  uint64_t code = 0;         // codelets, vertices, control
  uint64_t exchange_code = 0;
  uint64_t total() const { return always_live + temporary + code + exchange_code; }
};

struct Compiled {
  std::shared_ptr<GraphState> graph;
  std::vector<std::vector<Phase>> programs;
  std::vector<TileMemory> tiles;
  uint64_t cycles(size_t program) const {
    uint64_t sum = 0;
    for (const Phase& phase : programs.at(program)) sum += phase.cycles();
    return sum;
  }
};

// An engine that is loaded, with what its programs have cost so far.
struct Running {
  std::shared_ptr<const Compiled> compiled;
  std::unique_ptr<Memory> memory;
  std::map<std::string, std::pair<void*, void*>> streams;  // begin, end; end null: not checked
  std::map<std::string, std::vector<std::byte>> remote;    // buffers, by handle, from their first use on
  std::shared_ptr<Replicas> replicas;
  uint64_t cycles = 0;
  bool clocks_alone = false;  // no values are computed
};

}  // namespace ipu_emulator
