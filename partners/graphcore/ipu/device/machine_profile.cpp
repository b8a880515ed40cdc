// SPDX-License-Identifier: Apache-2.0
#ifdef TRANSOM_IPU_EMULATED

#include "ipu/device/machine_profile.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "ipu/device/clocks.h"
#include "ipu/device/ipu_config.h"
#include "simulator/pipeline.h"

namespace transom::ipu {
namespace {

using Json = nlohmann::json;
using ipu_emulator::Compiled;
using ipu_emulator::Phase;
using ipu_emulator::Pipeline;
using ipu_emulator::TileMemory;

constexpr size_t kMostSteps = 1500;  // of a page; more are joined

struct Cycles {
  uint64_t compute = 0, exchange = 0, sync = 0, link = 0, host = 0;

  void add(const Phase& phase) {
    compute += phase.times * phase.compute;
    exchange += phase.times * phase.exchange;
    sync += phase.times * phase.sync;
    link += phase.times * phase.link;
    host += phase.times * phase.host;
  }
  uint64_t total() const { return compute + exchange + sync + link + host; }
  Json json() const {
    return {{"compute", compute}, {"exchange", exchange}, {"sync", sync}, {"link", link}, {"host", host}};
  }
};

uint64_t fullest(const std::vector<TileMemory>& tiles) {
  uint64_t most = 0;
  for (const TileMemory& tile : tiles) most = std::max(most, tile.total());
  return most;
}

Json tiles_json(const std::vector<TileMemory>& tiles) {
  Json always = Json::array(), temporary = Json::array(), code = Json::array();
  for (const TileMemory& tile : tiles) {
    always.push_back(tile.always_live);
    temporary.push_back(tile.temporary);
    code.push_back(tile.code + tile.exchange_code);
  }
  return {{"always_live", always}, {"temporary", temporary}, {"code", code}};
}

// The steps in order; neighbours on one IPU are joined until there are few enough.
Json steps_json(const std::vector<Phase>& phases) {
  uint64_t all = 0;
  for (const Phase& phase : phases) all += phase.cycles();
  Json steps = Json::array();
  Cycles cycles;
  std::string longest;
  uint64_t longest_cycles = 0;
  for (size_t at = 0; at < phases.size(); ++at) {
    const Phase& phase = phases[at];
    cycles.add(phase);
    if (phase.cycles() >= longest_cycles) longest = phase.name, longest_cycles = phase.cycles();
    const bool joins = at + 1 < phases.size() && phases[at + 1].ipu == phase.ipu && phases.size() > kMostSteps &&
                       cycles.total() < all / kMostSteps;
    if (joins) continue;
    Json step = cycles.json();
    step["chip"] = phase.ipu;
    step["name"] = longest;
    steps.push_back(std::move(step));
    cycles = {};
    longest_cycles = 0;
  }
  return steps;
}

double seconds(const Compiled& compiled, uint64_t cycles) {
  return static_cast<double>(cycles) / compiled.graph->target.getTileClockFrequency();
}

bool is_pipelined(const Compiled& compiled) { return compiled.graph->target.getNumIPUs() > 1; }

}  // namespace

std::string profile_text(const Compiled& compiled) {
  const auto& target = compiled.graph->target;
  Cycles cycles;
  for (const Phase& phase : compiled.programs[0]) cycles.add(phase);
  std::string text = fmt::format(
      "emulated {} of {} IPUs: {} cycles ({} compute, {} exchange, {} synchronisation, {} links, {} host), {:.1f} us; "
      "fullest tile {} of {} bytes\n",
      target.getTargetArchString(), target.getNumIPUs(), cycles.total(), cycles.compute, cycles.exchange, cycles.sync,
      cycles.link, cycles.host, seconds(compiled, cycles.total()) * 1e6, fullest(compiled.tiles),
      target.getBytesPerTile());
  if (!is_pipelined(compiled)) return text;
  const Pipeline pipeline = pipeline_of(compiled, 0);
  const uint64_t count = ipu_config().gradient_accumulation_steps;
  text += fmt::format(
      "as a pipeline: {} cycles between two micro-batches (by IPU: {}), {} stages; {} micro-batches take {:.3f} ms; "
      "fullest tile {} of {} bytes{}\n",
      pipeline.slowest, fmt::join(pipeline.of_ipu, ", "), pipeline.visits.size(), count,
      seconds(compiled, pipeline.cycles(count)) * 1e3, fullest(pipeline.tiles), target.getBytesPerTile(),
      fullest(pipeline.tiles) > target.getBytesPerTile() ? ": it does not fit" : "");
  return text;
}

std::string profile_json(const Compiled& compiled) {
  const auto& target = compiled.graph->target;
  Cycles all;
  std::vector<Cycles> by_ipu(target.getNumIPUs());
  for (const Phase& phase : compiled.programs[0]) {
    all.add(phase);
    by_ipu[phase.ipu].add(phase);
  }
  Json ipus = Json::array();
  for (const Cycles& cycles : by_ipu) ipus.push_back(cycles.json());
  Json profile = {{"emulated", true},
                  {"clocks_alone", clocks_alone()},
                  {"architecture", target.getTargetArchString()},
                  {"clock", target.getTileClockFrequency()},
                  {"chips", target.getNumIPUs()},
                  {"tiles_per_chip", target.getTilesPerIPU()},
                  {"bytes_per_tile", target.getBytesPerTile()},
                  {"cycles", all.json()},
                  {"by_chip", ipus},
                  {"fullest_tile", fullest(compiled.tiles)},
                  {"tiles", tiles_json(compiled.tiles)},
                  {"steps", steps_json(compiled.programs[0])}};
  if (is_pipelined(compiled)) {
    const Pipeline pipeline = pipeline_of(compiled, 0);
    const uint64_t count = ipu_config().gradient_accumulation_steps;
    profile["pipeline"] = {{"micro_batches", count},
                           {"cycles", pipeline.cycles(count)},
                           {"seconds", seconds(compiled, pipeline.cycles(count))},
                           {"slowest", pipeline.slowest},
                           {"by_chip", pipeline.of_ipu},
                           {"visits", pipeline.visits},
                           {"fullest_tile", fullest(pipeline.tiles)},
                           {"fits", fullest(pipeline.tiles) <= target.getBytesPerTile()},
                           {"tiles", tiles_json(pipeline.tiles)}};
  }
  return profile.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace transom::ipu

#endif
