// SPDX-License-Identifier: Apache-2.0
#include "simulator/compile.h"

#include <algorithm>
#include <set>
#include <tuple>
#include <unordered_map>
#include <unordered_set>

#include "poplar/exceptions.hpp"
#include "simulator/kernels.h"

namespace ipu_emulator {
namespace {

// Figures of the machine. Synchronisation of one IPU: 1,134.8 cycles for 8 supersteps in the profile of a published
// tutorial. Host: PCIe Gen4 through the gateway, 5.5 GB/s back and twice that there.
constexpr uint64_t kSyncCycles = 140;
constexpr uint64_t kCodeletBytes = 600;      // of a codelet's code, once a tile
constexpr uint64_t kVertexBytes = 24;        // of a vertex' state
constexpr uint64_t kStepBytes = 12;          // of control code a step
constexpr uint64_t kExchangeCodeBytes = 24;  // a tile and exchange
constexpr uint64_t kStackBytes = 6 * 256 + 1024;
constexpr uint64_t kMostExactOverlap = 1 << 16;
constexpr double kHostBytesPerSecond = 11e9;
constexpr double kLinkBytesPerSecond = 32e9;  // between two IPUs
// Streaming memory: 20 GB/s for the four IPUs of a machine is often quoted, and not confirmed.
constexpr double kRemoteBytesPerSecond = 5e9;

std::string name_of(const GraphState& graph, uint32_t variable) {
  const std::string& name = graph.variables[variable].name;
  return "\"" + (name.empty() ? "variable " + std::to_string(variable) : name) + "\"";
}

struct Touch {
  uint32_t variable;
  uint64_t begin, end;
  uint32_t vertex;
  bool writes;
};

void touches_of(const poplar::Tensor& tensor, uint32_t vertex, bool writes, std::vector<Touch>& touches) {
  for_each_row(tensor.view(), [&](uint64_t, uint32_t variable, uint64_t element, uint64_t count, int64_t step) {
    if (step == 1 || count == 1) touches.push_back({variable, element, element + count, vertex, writes});
    else
      for (uint64_t i = 0; i < count; ++i) {
        const uint64_t at = element + i * static_cast<uint64_t>(step);
        touches.push_back({variable, at, at + 1, vertex, writes});
      }
  });
}

// What one vertex of a compute set writes no other one reads or writes.
void check_compute_set(const GraphState& graph, const GraphState::Set& set) {
  std::vector<Touch> touches;
  for (const uint32_t id : set.vertices) {
    const Vertex& vertex = graph.vertices[id];
    for (const CodeletField& field : vertex.codelet->fields) {
      if (field.direction == Direction::kValue) {
        if (!vertex.values.count(field.name))
          throw poplar::graph_error(vertex.codelet->name + "." + field.name + ": expected an initial value");
        continue;
      }
      const auto found = vertex.tensors.find(field.name);
      if (found == vertex.tensors.end())
        throw poplar::graph_error(vertex.codelet->name + "." + field.name + ": expected a tensor");
      touches_of(found->second, id, field.direction != Direction::kIn, touches);
    }
    if (vertex.tile == kNoTile)
      throw poplar::invalid_tile_mapping(vertex.codelet->name +
                                         ": expected a tile for the vertex; call setTileMapping");
  }
  std::sort(touches.begin(), touches.end(), [](const Touch& a, const Touch& b) {
    return std::tie(a.variable, a.begin) < std::tie(b.variable, b.begin);
  });
  // The furthest ends so far, of writes and of all, and whose they are.
  const Touch *write = nullptr, *any = nullptr, *other = nullptr;
  for (const Touch& touch : touches) {
    if (any && any->variable != touch.variable) write = any = other = nullptr;
    for (const Touch* before : {write, touch.writes ? any : nullptr, touch.writes ? other : nullptr})
      if (before && before->vertex != touch.vertex && before->end > touch.begin)
        throw poplar::graph_error("compute set \"" + set.name + "\": element " + std::to_string(touch.begin) + " of " +
                                  name_of(graph, touch.variable) +
                                  " is written by one vertex and touched by another one");
    if (touch.writes && (!write || touch.end > write->end)) write = &touch;
    if (!any || touch.end > any->end) other = any && any->vertex != touch.vertex ? any : other, any = &touch;
  }
}

void check_operation(const GraphState& graph, const Step& step) {
  std::unordered_set<uint64_t> written;
  std::unordered_set<uint32_t> variables;
  uint64_t elements = 0;
  for (const poplar::Tensor& tensor : step.writes) {
    elements += tensor.numElements();
    if (!tensor.view().places) variables.insert(tensor.view().variable);
  }
  bool shares = false;
  for (const poplar::Tensor& tensor : step.reads)
    shares = shares || tensor.view().places || variables.count(tensor.view().variable);
  if (!shares || elements > kMostExactOverlap) return;
  std::vector<Touch> touches;
  for (const poplar::Tensor& tensor : step.writes) touches_of(tensor, 0, true, touches);
  for (const Touch& touch : touches)
    for (uint64_t at = touch.begin; at < touch.end; ++at)
      written.insert(static_cast<uint64_t>(touch.variable) << 40 | at);
  touches.clear();
  for (const poplar::Tensor& tensor : step.reads)
    if (tensor.numElements() <= 16 * kMostExactOverlap) touches_of(tensor, 0, false, touches);
  for (const Touch& touch : touches)
    for (uint64_t at = touch.begin; at < touch.end; ++at)
      if (written.count(static_cast<uint64_t>(touch.variable) << 40 | at))
        throw poplar::graph_error(step.name + ": element " + std::to_string(at) + " of " +
                                  name_of(graph, touch.variable) + " is read and written by one step");
}

class Compiler {
 public:
  Compiler(const poplar::Graph& graph, const std::vector<poplar::program::Program>& programs)
      : graph_(*graph.state()), compiled_(std::make_shared<Compiled>()) {
    compiled_->graph = graph.state();
    compiled_->tiles.resize(graph_.target.getNumTiles());
    for (TileMemory& tile : compiled_->tiles) tile.code = kStackBytes;
    code_.resize(graph_.target.getNumTiles());
    lives_.resize(graph_.variables.size());
    for (const auto& program : programs) {
      compiled_->programs.emplace_back();
      linearise(program.step(), 1);
    }
    live();
  }

  std::shared_ptr<const Compiled> take(bool allow_out_of_memory) {
    if (!allow_out_of_memory) expect_fits();
    return compiled_;
  }

 private:
  struct Life {
    bool used = false, always = false;
    size_t program = 0, birth = 0, death = 0;
    uint64_t written = 0;  // elements that the program has written so far
  };

  void linearise(const std::shared_ptr<Step>& step, uint64_t times) {
    switch (step->kind) {
      case Step::Kind::kSequence:
        for (const auto& child : step->children) linearise(child, times);
        return;
      case Step::Kind::kRepeat: {
        // What a body needs from its last round, or from before, lives through all rounds: kept simple, as always live.
        if (in_repeat_) throw poplar::graph_error("Repeat within Repeat is not emulated");
        in_repeat_ = ++repeats_;
        for (const auto& child : step->children) linearise(child, step->times);
        in_repeat_ = 0;
        return;
      }
      default:
        add_phase(step, times);
    }
  }

  void add_phase(const std::shared_ptr<Step>& step, uint64_t times) {
    Phase phase;
    phase.step = step;
    phase.name = step->name;
    phase.times = times;
    phase.repeat = in_repeat_;
    if (step->kind == Step::Kind::kExecute) {
      const auto& set = graph_.compute_sets.at(step->compute_set);
      if (checked_.insert(step->compute_set).second) check_compute_set(graph_, set);
      if (phase.name.empty()) phase.name = set.name;
      step->reads.clear(), step->writes.clear(), step->updates.clear();
      std::map<uint32_t, TileWork> work;
      std::map<uint32_t, uint64_t> longest;
      for (const uint32_t id : set.vertices) cost_vertex(graph_.vertices[id], *step, work, longest);
      step->work.clear();
      for (auto& [tile, w] : work) {
        w.cycles = std::max(w.cycles, 6 * longest[tile]);
        step->work.push_back(w);
      }
    } else if (step->kind == Step::Kind::kOperation || step->kind == Step::Kind::kCopy) {
      check_operation(graph_, *step);
    }
    const auto& target = graph_.target;
    const size_t at = compiled_->programs.back().size();
    const bool shares_code = !outlined_.insert(outline_of(*step)).second;
    for (const TileWork& work : step->work) {
      phase.compute = std::max(phase.compute, work.cycles);
      phase.exchange = std::max(phase.exchange, work.received / target.getExchangeBytesPerCycle());
      phase.busy += work.cycles;
      phase.received += work.received;
      TileMemory& tile = compiled_->tiles[work.tile];
      tile.code += kStepBytes;
      if (shares_code) continue;
      tile.code += work.vertices * kVertexBytes;
      if (work.received) tile.exchange_code += kExchangeCodeBytes;
      const std::string& codelet = step->kind == Step::Kind::kExecute ? step->name : step->codelet;
      if (!codelet.empty() && code_[work.tile].insert(codelet).second) tile.code += kCodeletBytes;
    }
    phase.tiles = static_cast<uint32_t>(step->work.size());
    phase.first_tile = phase.tiles ? step->work.front().tile : 0;
    if (phase.exchange || phase.compute) phase.sync = kSyncCycles;
    between_ipus(*step, phase);
    if (step->replica_bytes) phase.link += cycles_of(step->replica_bytes, kLinkBytesPerSecond) + kSyncCycles;
    if (step->kind == Step::Kind::kRemoteIn || step->kind == Step::Kind::kRemoteOut)
      phase.host = cycles_of(bytes_of(moved(*step)), kRemoteBytesPerSecond) + kSyncCycles;
    if (step->kind == Step::Kind::kStreamIn || step->kind == Step::Kind::kStreamOut) {
      phase.host = cycles_of(bytes_of(moved(*step)), kHostBytesPerSecond) + kSyncCycles;
    }
    if (!step->kernel.empty()) step->run = kernel_of(*step);
    for (const poplar::Tensor& tensor : step->reads) use(tensor, at, false);
    for (const poplar::Tensor& tensor : step->updates) use(tensor, at, false);
    for (const poplar::Tensor& tensor : step->writes) use(tensor, at, true);
    compiled_->programs.back().push_back(std::move(phase));
  }

  uint64_t cycles_of(uint64_t bytes, double bytes_per_second) const {
    return static_cast<uint64_t>(static_cast<double>(bytes) / bytes_per_second * graph_.target.getTileClockFrequency());
  }
  static uint64_t bytes_of(const poplar::Tensor& tensor) {
    return tensor.numElements() * size_of(tensor.elementType());
  }
  // Of a stream or a remote buffer.
  static const poplar::Tensor& moved(const Step& step) { return step.writes.empty() ? step.reads[0] : step.writes[0]; }

  // Of the variable that the tensor shows; kNoTile: of several, or of none.
  uint32_t first_tile(const poplar::Tensor& tensor) const {
    if (tensor.view().places || tensor.numElements() == 0) return kNoTile;
    const auto& runs = *graph_.variables[tensor.view().variable].runs;
    return runs.empty() ? kNoTile : runs.front().tile;
  }

  // Steps that do the same to tensors of the same shapes on the same IPU are one function with one set of vertices,
  // as outlining makes of the layers of a model. Compute sets are somebody's own vertices.
  std::string outline_of(const Step& step) const {
    std::string text = step.kind == Step::Kind::kExecute ? std::to_string(step.compute_set) + " set " : step.codelet;
    if (step.kind == Step::Kind::kCopy) text = "copy";
    const auto add = [&](const char* what, const std::vector<poplar::Tensor>& tensors) {
      text += what;
      for (const poplar::Tensor& tensor : tensors) {
        const View& view = tensor.view();
        text += tensor.elementType().toString() + tensor.shapeToString();
        for (const int64_t stride : view.strides) text += "," + std::to_string(stride);
        text += "@" + std::to_string(first_tile(tensor) / graph_.target.getTilesPerIPU());
      }
    };
    add(" reads ", step.reads);
    add(" writes ", step.writes);
    add(" updates ", step.updates);
    text += " on " + std::to_string(step.work.size());
    return text;
  }

  // What comes from another IPU goes over a link.
  void between_ipus(const Step& step, Phase& phase) {
    if (graph_.target.getNumIPUs() == 1) return;
    uint32_t tile = kNoTile;
    if (!step.work.empty()) tile = step.work.front().tile;
    for (const auto* tensors : {&step.writes, &step.reads})  // of streams
      for (const poplar::Tensor& tensor : *tensors)
        if (tile == kNoTile) tile = first_tile(tensor);
    if (tile == kNoTile) return;
    const uint32_t here = phase.ipu = tile / graph_.target.getTilesPerIPU();
    if (step.work.empty()) return;
    uint64_t bytes = 0;
    for (const poplar::Tensor& tensor : step.reads) {
      const View& view = tensor.view();
      if (view.places || tensor.numElements() == 0) continue;
      const auto& runs = *graph_.variables[view.variable].runs;
      if (runs.front().tile / graph_.target.getTilesPerIPU() != here) bytes += bytes_of(tensor);
    }
    if (bytes) phase.link = cycles_of(bytes, kLinkBytesPerSecond);
  }

  void cost_vertex(const Vertex& vertex, Step& step, std::map<uint32_t, TileWork>& work,
                   std::map<uint32_t, uint64_t>& longest) {
    TileWork& w = work.try_emplace(vertex.tile, TileWork{vertex.tile}).first->second;
    uint64_t elements = 0;
    step.name = step.name.empty() ? vertex.codelet->name : step.name;
    for (const CodeletField& field : vertex.codelet->fields) {
      if (field.direction == Direction::kValue) continue;
      const poplar::Tensor& tensor = vertex.tensors.at(field.name);
      elements += tensor.numElements();
      (field.direction == Direction::kIn    ? step.reads
       : field.direction == Direction::kOut ? step.writes
                                            : step.updates)
          .push_back(tensor);
      for (const Run& run : layout_of(tensor).runs) {
        if (run.tile == kNoTile)
          throw poplar::invalid_tile_mapping(vertex.codelet->name + "." + field.name +
                                             ": expected every element on a tile; call Graph::setTileMapping");
        if (run.tile != vertex.tile) w.received += (run.end - run.begin) * size_of(tensor.elementType());
      }
    }
    const uint64_t cycles = vertex.cycles ? vertex.cycles : 40 + 4 * elements;
    w.cycles += cycles;
    ++w.vertices;
    longest[vertex.tile] = std::max(longest[vertex.tile], cycles);
  }

  void use(const poplar::Tensor& tensor, size_t at, bool writes) {
    const View& view = tensor.view();
    if (!view.places) return use_variable(view.variable, at, writes, tensor.numElements());
    std::unordered_map<uint32_t, uint64_t> counts;
    for_each_row(view,
                 [&](uint64_t, uint32_t variable, uint64_t, uint64_t count, int64_t) { counts[variable] += count; });
    for (const auto& [variable, count] : counts) use_variable(variable, at, writes, count);
  }

  void use_variable(uint32_t variable, size_t at, bool writes, uint64_t elements) {
    Life& life = lives_[variable];
    const size_t program = compiled_->programs.size() - 1;
    if (!life.used) {
      life = {true, false, program, at, at, 0};
      // Read first, or constant: it comes from an earlier run.
      if (!writes || !graph_.variables[variable].constant.empty()) life.always = true;
    }
    if (life.program != program || in_repeat_) life.always = true;
    // Read before all of it was written: some of it may come from an earlier run.
    if (!writes && life.written < graph_.variables[variable].elements) life.always = true;
    if (writes) life.written += elements;
    life.death = at;
  }

  // The memory of each tile at the fullest moment.
  void live() {
    auto& tiles = compiled_->tiles;
    for (uint32_t v = 0; v < lives_.size(); ++v) {
      const Life& life = lives_[v];
      if (!life.used || !life.always) continue;
      for (const Run& run : *graph_.variables[v].runs)
        if (run.tile != kNoTile)
          tiles[run.tile].always_live += (run.end - run.begin) * size_of(graph_.variables[v].type);
    }
    for (size_t p = 0; p < compiled_->programs.size(); ++p) {
      auto& phases = compiled_->programs[p];
      for (uint32_t v = 0; v < lives_.size(); ++v)
        if (lives_[v].used && !lives_[v].always && lives_[v].program == p) {
          phases[lives_[v].birth].born.push_back(v);
          phases[lives_[v].death].dead.push_back(v);
        }
      std::vector<uint64_t> now(tiles.size(), 0);
      const auto add = [&](uint32_t v, bool plus) {
        const size_t size = size_of(graph_.variables[v].type);
        for (const Run& run : *graph_.variables[v].runs) {
          if (run.tile == kNoTile) continue;
          const uint64_t bytes = (run.end - run.begin) * size;
          if (plus) tiles[run.tile].temporary = std::max(tiles[run.tile].temporary, now[run.tile] += bytes);
          else now[run.tile] -= bytes;
        }
      };
      for (size_t at = 0; at < phases.size(); ++at) {
        for (const uint32_t v : phases[at].born) add(v, true);
        for (const TileWork& work : phases[at].step->work)
          tiles[work.tile].temporary = std::max(tiles[work.tile].temporary, now[work.tile] + work.while_running());
        for (const uint32_t v : phases[at].dead) add(v, false);
      }
    }
  }

  void expect_fits() const {
    const uint64_t limit = graph_.target.getBytesPerTile();
    const auto fullest =
        std::max_element(compiled_->tiles.begin(), compiled_->tiles.end(),
                         [](const TileMemory& a, const TileMemory& b) { return a.total() < b.total(); });
    if (fullest->total() <= limit) return;
    const auto tile = static_cast<uint32_t>(fullest - compiled_->tiles.begin());
    const auto over = std::count_if(compiled_->tiles.begin(), compiled_->tiles.end(),
                                    [&](const TileMemory& t) { return t.total() > limit; });
    // The largest variables of that tile.
    std::vector<std::pair<uint64_t, uint32_t>> held;
    for (uint32_t v = 0; v < lives_.size(); ++v) {
      if (!lives_[v].used) continue;
      uint64_t bytes = 0;
      for (const Run& run : *graph_.variables[v].runs)
        if (run.tile == tile) bytes += (run.end - run.begin) * size_of(graph_.variables[v].type);
      if (bytes) held.emplace_back(bytes, v);
    }
    std::sort(held.rbegin(), held.rend());
    std::string tensors;
    for (size_t i = 0; i < std::min<size_t>(held.size(), 3); ++i)
      tensors += (i ? ", " : "") + name_of(graph_, held[i].second) + " with " + std::to_string(held[i].first);
    throw poplar::graph_memory_allocation_error(
        "tile " + std::to_string(tile) + " needs " + std::to_string(fullest->total()) + " bytes of " +
        std::to_string(limit) + " (" + std::to_string(fullest->always_live) + " always live, " +
        std::to_string(fullest->temporary) + " temporary, " + std::to_string(fullest->code + fullest->exchange_code) +
        " code; its largest tensors: " + tensors + "), and " + std::to_string(over) +
        " tiles are over; use more IPUs, smaller batches, or half");
  }

  const GraphState& graph_;
  std::shared_ptr<Compiled> compiled_;
  std::vector<Life> lives_;
  std::vector<std::set<std::string>> code_;
  std::set<unsigned> checked_;
  std::unordered_set<std::string> outlined_;
  uint32_t in_repeat_ = 0, repeats_ = 0;
};

}  // namespace
}  // namespace ipu_emulator

namespace poplar {

using namespace ipu_emulator;

Executable compileGraph(const Graph& graph, const std::vector<program::Program>& programs, const OptionFlags& options) {
  return Executable(Compiler(graph, programs).take(options.at("debug.allowOutOfMemory", "false") == "true"));
}

}  // namespace poplar
