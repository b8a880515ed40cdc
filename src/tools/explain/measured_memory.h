// SPDX-License-Identifier: Apache-2.0
// What the memory plan of a job says, beside what the device really allocates for it: where there is a device, or an
// emulator of one, a plan can be checked.
#pragma once

#include <cstdint>
#include <string>

#include "base/json/json_fwd.h"
#include "tools/bench/workload.h"

namespace transom {

struct MeasuredMemory {
  std::string device;
  bool emulated = false;
  // Of the program that needs most, from its graph after all passes: what it reads (weights, states of the optimizer, a
  // batch), what lives only within a run, and results that take no input's memory. In blocks of the sizes that the
  // device gives out.
  int64_t inputs = 0, arena = 0, results = 0;
  int64_t in_place = 0;  // weights that the device reads where the host has them: no memory of the device
  int64_t measured = 0;  // the most that the device had in use in a run after the first ones

  int64_t planned() const { return inputs + arena + results; }
  double ratio() const { return static_cast<double>(planned()) / static_cast<double>(measured); }
};

// Compiles and runs the job on the device in use.
MeasuredMemory measure_memory(const BenchOptions& options);

std::string measured_memory_table(const MeasuredMemory& memory);
Json measured_memory_json(const MeasuredMemory& memory);

}  // namespace transom
