// SPDX-License-Identifier: Apache-2.0
#include "poplar/Graph.hpp"

#include <algorithm>
#include <cstring>

#include "poputil/TileMapping.hpp"
#include "simulator/half.h"
#include "simulator/model.h"

namespace ipu_emulator {

std::map<std::string, Codelet>& codelets() {
  static std::map<std::string, Codelet> all;
  return all;
}

namespace {

std::shared_ptr<const std::vector<Run>> unmapped(uint64_t elements) {
  return std::make_shared<std::vector<Run>>(std::vector<Run>{{0, elements, kNoTile}});
}

// Sets [begin, end) of a variable to a tile.
void set_run(std::vector<Run>& runs, uint64_t begin, uint64_t end, uint32_t tile) {
  if (begin == end) return;
  std::vector<Run> made;
  made.reserve(runs.size() + 2);
  bool placed = false;
  for (const Run& run : runs) {
    if (run.end <= begin || run.begin >= end) {
      if (run.begin >= end && !placed) made.push_back({begin, end, tile}), placed = true;
      made.push_back(run);
      continue;
    }
    if (run.begin < begin) made.push_back({run.begin, begin, run.tile});
    if (!placed) made.push_back({begin, end, tile}), placed = true;
    if (run.end > end) made.push_back({end, run.end, run.tile});
  }
  if (!placed) made.push_back({begin, end, tile});
  runs = std::move(made);
}

poplar::Tensor whole(const std::shared_ptr<GraphState>& graph, uint32_t variable, Type type,
                     const std::vector<size_t>& shape) {
  View view;
  view.graph = graph;
  view.type = type;
  view.shape = shape;
  view.variable = variable;
  view.strides.resize(shape.size());
  int64_t stride = 1;
  for (size_t i = shape.size(); i-- > 0; stride *= static_cast<int64_t>(shape[i])) view.strides[i] = stride;
  return poplar::Tensor(std::move(view));
}

}  // namespace

poplar::Tensor variable_like(poplar::Graph& graph, Type type, const poplar::Tensor& like, const std::string& name) {
  const poplar::Tensor made = graph.addVariable(type, like.shape(), name);
  if (made.numElements() == 0) return made;
  const View& view = like.view();
  auto& variables = graph.state()->variables;
  if (view.contiguous() && variables[view.variable].elements == made.numElements()) {
    variables[made.view().variable].runs = variables[view.variable].runs;
    return made;
  }
  const Layout layout = layout_of(like);
  // A broadcast would pile up on few tiles what fits many.
  const uint64_t share = (made.numElements() + graph.tiles() - 1) / graph.tiles();
  uint64_t longest = 0;
  std::map<uint32_t, uint64_t> held;
  for (const Run& run : layout.runs) longest = std::max(longest, held[run.tile] += run.end - run.begin);
  if (!layout.exact || (longest > 2 * share && longest > 64)) poputil::mapTensorLinearly(graph, made);
  else variables[made.view().variable].runs = std::make_shared<std::vector<Run>>(layout.runs);
  return made;
}

}  // namespace ipu_emulator

namespace poplar {

using namespace ipu_emulator;

Graph::Graph(const Target& target, replication_factor replicas)
    : state_(std::make_shared<GraphState>()), target_(target), tiles_(target.getNumTiles()) {
  if (replicas.value == 0) throw graph_error("expected a replication factor of at least 1, found 0");
  state_->target = target;
  state_->replicas = replicas.value;
}

unsigned Graph::getReplicationFactor() const { return state_->replicas; }

Graph Graph::createVirtualGraph(unsigned begin, unsigned end) const {
  if (begin >= end || end > tiles_)
    throw graph_error("expected tiles within " + std::to_string(tiles_) + ", found [" + std::to_string(begin) + ", " +
                      std::to_string(end) + ")");
  Graph part;
  part.state_ = state_;
  part.first_tile_ = first_tile_ + begin;
  part.tiles_ = end - begin;
  part.target_ = Target::createVirtualTarget(target_, end - begin);
  return part;
}

Tensor Graph::addVariable(const Type& type, const std::vector<size_t>& shape, const DebugContext& debugContext) {
  const auto index = static_cast<uint32_t>(state_->variables.size());
  Tensor tensor = whole(state_, index, type, shape);
  state_->variables.push_back(
      {debugContext.getPathName(), type, tensor.numElements(), unmapped(tensor.numElements()), {}, false});
  return tensor;
}

Tensor Graph::add_constant(const Type& type, const std::vector<size_t>& shape, double real, int64_t integer,
                           const DebugContext& debugContext) {
  Tensor tensor = addVariable(type, shape, debugContext);
  Variable& variable = state_->variables.back();
  variable.constant.resize(8);
  variable.spread_values = true;
  store_number(type, variable.constant.data(), real, integer);
  return tensor;
}

Tensor Graph::add_constant_bytes(const Type& type, const std::vector<size_t>& shape, const void* values, size_t size,
                                 const DebugContext& debugContext) {
  if (size != size_of(type))
    throw graph_error("expected constants of " + std::to_string(size_of(type)) + " bytes, found " +
                      std::to_string(size));
  Tensor tensor = addVariable(type, shape, debugContext);
  Variable& variable = state_->variables.back();
  variable.constant.resize(variable.bytes() + 1);
  std::memcpy(variable.constant.data(), values, variable.bytes());
  return tensor;
}

void Graph::setTileMapping(const Tensor& tensor, unsigned tile) {
  if (tile >= tiles_)
    throw invalid_tile_mapping("expected a tile below " + std::to_string(tiles_) + ", found " + std::to_string(tile));
  const View& view = tensor.view();
  for_each_row(view, [&](uint64_t, uint32_t variable, uint64_t element, uint64_t count, int64_t step) {
    auto runs = std::make_shared<std::vector<Run>>(*state_->variables[variable].runs);
    if (step == 1 || count == 1) set_run(*runs, element, element + count, first_tile_ + tile);
    else
      for (uint64_t i = 0; i < count; ++i) {
        const uint64_t at = element + i * static_cast<uint64_t>(step);
        set_run(*runs, at, at + 1, first_tile_ + tile);
      }
    state_->variables[variable].runs = std::move(runs);
  });
}

void Graph::setTileMapping(const Tensor& tensor, const TileToTensorMapping& mapping) {
  const Tensor flat = tensor.flatten();
  if (mapping.size() > tiles_)
    throw invalid_tile_mapping("expected a mapping of at most " + std::to_string(tiles_) + " tiles, found " +
                               std::to_string(mapping.size()));
  const View& view = tensor.view();
  if (view.contiguous() && state_->variables[view.variable].elements == flat.numElements()) {
    std::vector<Run> runs;
    for (size_t tile = 0; tile < mapping.size(); ++tile)
      for (const Interval& interval : mapping[tile])
        if (interval.size())
          runs.push_back({interval.begin(), interval.end(), first_tile_ + static_cast<uint32_t>(tile)});
    std::sort(runs.begin(), runs.end(), [](const Run& a, const Run& b) { return a.begin < b.begin; });
    uint64_t at = 0;
    bool dense = true;
    for (const Run& run : runs) dense = dense && run.begin == at, at = run.end;
    if (dense && at == flat.numElements()) {
      state_->variables[view.variable].runs = std::make_shared<std::vector<Run>>(std::move(runs));
      return;
    }
  }
  for (size_t tile = 0; tile < mapping.size(); ++tile)
    for (const Interval& interval : mapping[tile]) setTileMapping(flat.slice(interval, 0), static_cast<unsigned>(tile));
}

Graph::TileToTensorMapping Graph::getTileMapping(const Tensor& tensor) const {
  TileToTensorMapping mapping(tiles_);
  for (const Run& run : layout_of(tensor).runs) {
    if (run.tile == kNoTile)
      throw invalid_tile_mapping("expected a mapped tensor, found elements without a tile from " +
                                 std::to_string(run.begin));
    mapping.at(run.tile - first_tile_).emplace_back(run.begin, run.end);
  }
  return mapping;
}

void Graph::setTileMapping(const VertexRef& vertex, unsigned tile) {
  if (tile >= tiles_)
    throw invalid_tile_mapping("expected a tile below " + std::to_string(tiles_) + ", found " + std::to_string(tile));
  state_->vertices.at(vertex.id()).tile = first_tile_ + tile;
}

void Graph::addCodelets(const std::string& file) { state_->libraries[file] = true; }

ComputeSet Graph::addComputeSet(const DebugContext& debugContext) {
  state_->compute_sets.push_back({debugContext.getPathName(), {}});
  return ComputeSet(static_cast<unsigned>(state_->compute_sets.size() - 1));
}

VertexRef Graph::addVertex(const ComputeSet& cs, const std::string& codelet) {
  const auto found = codelets().find(codelet);
  if (found == codelets().end()) throw graph_error("expected a codelet that was added, found \"" + codelet + "\"");
  const auto id = static_cast<uint32_t>(state_->vertices.size());
  state_->vertices.push_back({});
  state_->vertices.back().codelet = &found->second;
  state_->compute_sets.at(cs.getId()).vertices.push_back(id);
  return VertexRef(id);
}

namespace {

const CodeletField& field_of(const ipu_emulator::Vertex& vertex, const std::string& name) {
  for (const CodeletField& field : vertex.codelet->fields)
    if (field.name == name) return field;
  throw graph_error(vertex.codelet->name + ": expected a field of the codelet, found \"" + name + "\"");
}

}  // namespace

void Graph::connect(const FieldRef& ref, const Tensor& tensor) {
  ipu_emulator::Vertex& vertex = state_->vertices.at(ref.vertex());
  const CodeletField& field = field_of(vertex, ref.name());
  if (field.direction == Direction::kValue || field.type != tensor.elementType() || tensor.rank() != 1)
    throw graph_error(vertex.codelet->name + "." + ref.name() + ": expected a vector of " + field.type.toString() +
                      ", found one of rank " + std::to_string(tensor.rank()) + " of " +
                      tensor.elementType().toString());
  vertex.tensors[ref.name()] = tensor;
}

void Graph::set_initial_value(const FieldRef& ref, double real, int64_t integer) {
  ipu_emulator::Vertex& vertex = state_->vertices.at(ref.vertex());
  if (field_of(vertex, ref.name()).direction != Direction::kValue)
    throw graph_error(vertex.codelet->name + "." + ref.name() + ": expected a field that is a value");
  vertex.values[ref.name()] = {real, integer};
}

void Graph::setPerfEstimate(const VertexRef& vertex, uint64_t cycles) {
  state_->vertices.at(vertex.id()).cycles = cycles;
}

namespace {

DataStream add_stream(GraphState& state, DataStream stream) {
  if (!state.streams.emplace(stream.handle(), stream).second)
    throw graph_error("expected a new handle of a stream, found \"" + stream.handle() + "\" a second time");
  return stream;
}

}  // namespace

DataStream Graph::addHostToDeviceFIFO(const std::string& handle, const Type& type, size_t elements) {
  return add_stream(*state_, {handle, type, elements, true});
}
DataStream Graph::addDeviceToHostFIFO(const std::string& handle, const Type& type, size_t elements) {
  return add_stream(*state_, {handle, type, elements, false});
}

RemoteBuffer Graph::addRemoteBuffer(const std::string& handle, const Type& elementType, size_t numElements,
                                    size_t repeats, bool, bool) {
  if (repeats == 0) throw graph_error("remote buffer \"" + handle + "\": expected at least one row, found none");
  RemoteBuffer buffer(handle, elementType, numElements, repeats);
  if (!state_->remote_buffers.emplace(handle, buffer).second)
    throw graph_error("expected a new handle of a remote buffer, found \"" + handle + "\" a second time");
  return buffer;
}

}  // namespace poplar

namespace poputil {

using namespace ipu_emulator;

void mapTensorLinearlyWithOffset(poplar::Graph& graph, const poplar::Tensor& t, unsigned minElementsPerTile,
                                 unsigned grainSize, unsigned offset, bool ascending) {
  const uint64_t elements = t.numElements();
  if (elements == 0) return;
  const uint64_t grain = std::max(1u, grainSize);
  const uint64_t grains = (elements + grain - 1) / grain;
  uint64_t share = (grains + graph.tiles() - 1) / graph.tiles() * grain;
  share = std::max<uint64_t>(share, (std::max(1u, minElementsPerTile) + grain - 1) / grain * grain);
  GraphState& state = *graph.state();
  offset %= graph.tiles();
  auto& runs = state.linear[{elements, share, graph.firstTile(), graph.tiles(), offset, ascending}];
  if (!runs) {
    auto made = std::make_shared<std::vector<Run>>();
    uint32_t tile = offset;
    for (uint64_t at = 0; at < elements; at += share) {
      made->push_back({at, std::min(elements, at + share), graph.firstTile() + tile});
      tile = (tile + (ascending ? 1 : graph.tiles() - 1)) % graph.tiles();
    }
    runs = std::move(made);
  }
  const View& view = t.view();
  if (view.contiguous() && state.variables[view.variable].elements == elements) {
    state.variables[view.variable].runs = runs;
    return;
  }
  const poplar::Tensor flat = t.flatten();
  for (const Run& run : *runs) graph.setTileMapping(flat.slice(run.begin, run.end), run.tile - graph.firstTile());
}

void mapTensorLinearly(poplar::Graph& graph, const poplar::Tensor& t, unsigned minElementsPerTile, unsigned grainSize) {
  mapTensorLinearlyWithOffset(graph, t, minElementsPerTile, grainSize, 0);
}

void mapTensorLinearly(poplar::Graph& graph, const poplar::Tensor& t) {
  const unsigned size = std::max(1u, graph.getTarget().getTypeSize(t.elementType()));
  mapTensorLinearly(graph, t, 128 / size, graph.getTarget().getVectorWidth(t.elementType()));
}

}  // namespace poputil
