// SPDX-License-Identifier: Apache-2.0
#include "simulator/pipeline.h"

#include <algorithm>

namespace ipu_emulator {
namespace {

// A visit shorter than this part of an IPU's time is no stage: masks and losses are computed here and there.
constexpr uint64_t kSmallVisit = 50;

uint64_t own_cycles(const Phase& phase) { return phase.times * (phase.compute + phase.exchange + phase.sync); }

struct Visit {
  uint32_t ipu;
  size_t first;  // phase
  uint64_t cycles;
};

// Where a micro-batch goes, neighbours on one IPU joined.
std::vector<Visit> visits_of(const std::vector<Phase>& phases, const std::vector<uint64_t>& of_ipu) {
  std::vector<Visit> all, kept;
  for (size_t at = 0; at < phases.size(); ++at) {
    if (own_cycles(phases[at]) == 0) continue;
    if (all.empty() || all.back().ipu != phases[at].ipu) all.push_back({phases[at].ipu, at, 0});
    all.back().cycles += own_cycles(phases[at]);
  }
  for (const Visit& visit : all) {
    if (visit.cycles < of_ipu[visit.ipu] / kSmallVisit) continue;
    if (!kept.empty() && kept.back().ipu == visit.ipu) kept.back().cycles += visit.cycles;
    else kept.push_back(visit);
  }
  return kept;
}

bool leaves(const Phase& phase) { return phase.step->kind == Step::Kind::kStreamOut; }

// Variables of a program that leave over a stream.
std::vector<bool> results_of(const std::vector<Phase>& phases, size_t variables) {
  std::vector<bool> results(variables, false);
  for (const Phase& phase : phases)
    if (leaves(phase))
      for (const uint32_t variable : phase.dead) results[variable] = true;
  return results;
}

// Whether a value of the result's size ends in the step that makes a result: one part of a gradient that comes from
// several places (tied embeddings). It is added to the sum of the micro-batches as soon as it is there.
bool ends_in_result(const GraphState& graph, const Phase& phase, uint32_t variable, const std::vector<bool>& results) {
  for (const poplar::Tensor& tensor : phase.step->writes) {
    const View& view = tensor.view();
    if (!view.places && results[view.variable] &&
        graph.variables[view.variable].elements == graph.variables[variable].elements)
      return true;
  }
  return false;
}

}  // namespace

Pipeline pipeline_of(const Compiled& compiled, size_t program) {
  const std::vector<Phase>& phases = compiled.programs.at(program);
  const GraphState& graph = *compiled.graph;
  Pipeline pipeline;
  pipeline.of_ipu.resize(graph.target.getNumIPUs());
  for (const Phase& phase : phases) pipeline.of_ipu[phase.ipu] += own_cycles(phase);
  const std::vector<Visit> visits = visits_of(phases, pipeline.of_ipu);
  for (const Visit& visit : visits) pipeline.visits.push_back(visit.ipu);
  for (const Phase& phase : phases) pipeline.of_ipu[phase.ipu] += phase.times * phase.link;
  for (const uint64_t cycles : pipeline.of_ipu) pipeline.slowest = std::max(pipeline.slowest, cycles);

  const size_t tiles = compiled.tiles.size();
  pipeline.tiles = compiled.tiles;
  pipeline.accumulators.assign(tiles, 0);
  pipeline.stashed.assign(tiles, 0);
  const auto visit_at = [&](size_t phase) {
    const auto behind = std::upper_bound(visits.begin(), visits.end(), phase,
                                         [](size_t at, const Visit& visit) { return at < visit.first; });
    return std::max<ptrdiff_t>(0, behind - visits.begin() - 1);
  };
  std::vector<size_t> births(graph.variables.size(), 0);
  const std::vector<bool> results = results_of(phases, graph.variables.size());
  std::vector<std::vector<uint32_t>> ends(phases.size());
  const auto each_run = [&](uint32_t variable, auto&& body) {
    const size_t size = size_of(graph.variables[variable].type);
    for (const Run& run : *graph.variables[variable].runs)
      if (run.tile != kNoTile) body(run.tile, (run.end - run.begin) * size);
  };
  for (size_t at = 0; at < phases.size(); ++at) {
    for (const uint32_t variable : phases[at].born) births[variable] = at;
    for (const uint32_t variable : phases[at].dead) {
      const size_t birth = births[variable];
      if (results[variable]) {  // added to what earlier micro-batches gave, at once
        each_run(variable, [&](uint32_t tile, uint64_t bytes) { pipeline.accumulators[tile] += bytes; });
        ends[birth].push_back(variable);
        continue;
      }
      const auto more = static_cast<uint64_t>(visit_at(at) - visit_at(birth));
      const bool is_part = more && ends_in_result(graph, phases[at], variable, results);
      ends[is_part ? birth : at].push_back(variable);
      if (more && !is_part)
        each_run(variable, [&](uint32_t tile, uint64_t bytes) { pipeline.stashed[tile] += more * bytes; });
    }
  }
  for (TileMemory& tile : pipeline.tiles) tile.temporary = 0;
  std::vector<uint64_t> now(tiles, 0);
  for (size_t at = 0; at < phases.size(); ++at) {
    for (const uint32_t variable : phases[at].born)
      each_run(variable, [&](uint32_t tile, uint64_t bytes) {
        pipeline.tiles[tile].temporary = std::max(pipeline.tiles[tile].temporary, now[tile] += bytes);
      });
    for (const TileWork& work : phases[at].step->work)
      pipeline.tiles[work.tile].temporary =
          std::max(pipeline.tiles[work.tile].temporary, now[work.tile] + work.while_running());
    for (const uint32_t variable : ends[at])
      each_run(variable, [&](uint32_t tile, uint64_t bytes) { now[tile] -= bytes; });
  }
  for (size_t tile = 0; tile < tiles; ++tile)
    pipeline.tiles[tile].always_live += pipeline.accumulators[tile] + pipeline.stashed[tile];
  return pipeline;
}

}  // namespace ipu_emulator
