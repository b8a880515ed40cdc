// SPDX-License-Identifier: Apache-2.0
// What programs cost in cycles and bytes of tiles. Where the machine is emulated the simulator knows; with an SDK the
// profiler of the vendor does, and these functions say nothing.
#pragma once

#include <poplar/Engine.hpp>
#include <string>

#include "ipu/device/device.h"

namespace transom::ipu {

bool is_emulated();
bool clocks_alone();  // of programs that run nothing, where the emulator is asked for no more
void count_memory(transom_device& device, const poplar::Engine& engine);
// What the fullest tile has, and the cycles of a run, on one line.
std::string memory_text(poplar::Engine& engine);
// The machine is another engine's from now on: what the emulator holds for this one is freed.
void unload(poplar::Engine& engine);
// Those of what ran since the last time.
void count_cycles(transom_device& device, poplar::Engine& engine);
std::string describe(poplar::Engine& engine);
// One JSON object, for transom_plugin.device_report.
std::string report(const transom_device& device);

}  // namespace transom::ipu
