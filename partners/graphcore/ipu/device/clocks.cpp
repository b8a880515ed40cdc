// SPDX-License-Identifier: Apache-2.0
#include "ipu/device/clocks.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#ifdef TRANSOM_IPU_EMULATED
#include "ipu/device/machine_profile.h"
#include "simulator/compile.h"
#endif

namespace transom::ipu {

#ifdef TRANSOM_IPU_EMULATED

bool is_emulated() { return true; }
bool clocks_alone() { return ipu_emulator::clocks_alone(); }

namespace {

uint64_t fullest_tile(const ipu_emulator::Compiled& compiled) {
  uint64_t most = 0;
  for (const auto& tile : compiled.tiles) most = std::max(most, tile.total());
  return most;
}

}  // namespace

void count_memory(transom_device& device, const poplar::Engine& engine) {
  const uint64_t bytes = fullest_tile(*const_cast<poplar::Engine&>(engine).running().compiled);
  uint64_t before = device.fullest_tile;
  while (before < bytes && !device.fullest_tile.compare_exchange_weak(before, bytes)) {
  }
}

std::string memory_text(poplar::Engine& engine) {
  const ipu_emulator::Compiled& compiled = *engine.running().compiled;
  const auto fullest =
      std::max_element(compiled.tiles.begin(), compiled.tiles.end(),
                       [](const auto& left, const auto& right) { return left.total() < right.total(); });
  return fmt::format("fullest tile {} of {} bytes: {} always live, {} temporary, {} of code; {} cycles a run",
                     fullest->total(), compiled.graph->target.getBytesPerTile(), fullest->always_live,
                     fullest->temporary, fullest->code + fullest->exchange_code, compiled.cycles(0));
}

void unload(poplar::Engine& engine) {
  engine.running().memory.reset();
  engine.running().remote.clear();
}

void count_cycles(transom_device& device, poplar::Engine& engine) {
  device.cycles += std::exchange(engine.running().cycles, 0);
}

std::string describe(poplar::Engine& engine) {
  const ipu_emulator::Compiled& compiled = *engine.running().compiled;
  std::string text = profile_text(compiled);
  for (const ipu_emulator::Phase& phase : compiled.programs[0])
    text += fmt::format("{}: {} tiles of IPU {}, compute {}, exchange {}, links {}, host {}\n", phase.name, phase.tiles,
                        phase.ipu, phase.compute, phase.exchange, phase.link, phase.host);
  return text + std::string(kMachineProfile) + profile_json(compiled) + "\n";
}

#else

bool is_emulated() { return false; }
bool clocks_alone() { return false; }
void count_memory(transom_device&, const poplar::Engine&) {}
void count_cycles(transom_device&, poplar::Engine&) {}
void unload(poplar::Engine&) {}
std::string memory_text(poplar::Engine&) { return "the vendor's profiler shows its memory"; }
std::string describe(poplar::Engine&) { return "a Poplar program; the vendor's profiler shows its steps\n"; }

#endif

std::string report(const transom_device& device) {
  const double seconds = static_cast<double>(device.cycles.load()) / device.machine.getTarget().getTileClockFrequency();
  return fmt::format(
      "{{\"emulated\": {}, \"programs\": {}, \"runs\": {}, \"cycles\": {}, \"device_seconds\": {:.9g}, "
      "\"fullest_tile_bytes\": {}, \"bytes_per_tile\": {}, \"fetched_bytes\": {}, \"loaded_from_streaming_memory\": "
      "{}, "
      "\"stored_to_streaming_memory\": {}, \"collectives\": {}, \"kept_programs\": {}, \"block_products\": {}}}",
      is_emulated(), device.programs.load(), device.runs.load(), device.cycles.load(), seconds,
      device.fullest_tile.load(), device.machine.getTarget().getBytesPerTile(), device.fetched.load(),
      device.loaded_remote.load(), device.stored_remote.load(), device.collectives.load(), device.kept_programs.load(),
      device.block_products.load());
}

}  // namespace transom::ipu
