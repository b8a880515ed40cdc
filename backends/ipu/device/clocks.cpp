// SPDX-License-Identifier: Apache-2.0
#include "ipu/device/clocks.h"

#include <fmt/format.h>

#include <algorithm>

#ifdef TRANSOM_IPU_EMULATED
#include "simulator/compile.h"
#endif

namespace transom::ipu {

#ifdef TRANSOM_IPU_EMULATED

bool is_emulated() { return true; }

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

void count_cycles(transom_device& device, poplar::Engine& engine) {
  device.cycles += engine.running().compiled->cycles(0);
}

std::string describe(poplar::Engine& engine) {
  const ipu_emulator::Compiled& compiled = *engine.running().compiled;
  const auto& target = compiled.graph->target;
  uint64_t compute = 0, exchange = 0, sync = 0, host = 0;
  for (const ipu_emulator::Phase& phase : compiled.programs[0]) {
    compute += phase.times * phase.compute;
    exchange += phase.times * phase.exchange;
    sync += phase.times * phase.sync;
    host += phase.times * phase.host;
  }
  std::string text = fmt::format(
      "emulated {} of {} IPUs: {} cycles ({} compute, {} exchange, {} synchronisation, {} host), {:.1f} us; fullest "
      "tile "
      "{} of {} bytes\n",
      target.getTargetArchString(), target.getNumIPUs(), compiled.cycles(0), compute, exchange, sync, host,
      static_cast<double>(compiled.cycles(0)) / target.getTileClockFrequency() * 1e6, fullest_tile(compiled),
      target.getBytesPerTile());
  for (const ipu_emulator::Phase& phase : compiled.programs[0])
    text += fmt::format("{}: {} tiles, compute {}, exchange {}, host {}\n", phase.name, phase.tiles, phase.compute,
                        phase.exchange, phase.host);
  return text;
}

#else

bool is_emulated() { return false; }
void count_memory(transom_device&, const poplar::Engine&) {}
void count_cycles(transom_device&, poplar::Engine&) {}
std::string describe(poplar::Engine&) { return "a Poplar program; the vendor's profiler shows its steps\n"; }

#endif

std::string report(const transom_device& device) {
  const double seconds = static_cast<double>(device.cycles.load()) / device.machine.getTarget().getTileClockFrequency();
  return fmt::format(
      "{{\"emulated\": {}, \"programs\": {}, \"runs\": {}, \"cycles\": {}, \"device_seconds\": {:.9g}, "
      "\"fullest_tile_bytes\": {}, \"bytes_per_tile\": {}}}",
      is_emulated(), device.programs.load(), device.runs.load(), device.cycles.load(), seconds,
      device.fullest_tile.load(), device.machine.getTarget().getBytesPerTile());
}

}  // namespace transom::ipu
