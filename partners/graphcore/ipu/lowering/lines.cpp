// SPDX-License-Identifier: Apache-2.0
#include "ipu/lowering/lines.h"

#include <algorithm>

namespace transom::ipu {
namespace {

constexpr size_t kLeastElements = 64;  // of a vertex, so that small tensors take few tiles

}  // namespace

Lines lines_of(const Lowering&, size_t count, size_t length, const poplar::Target& target) {
  Lines lines{count, length, {}};
  const size_t tiles = target.getNumTiles();
  const size_t least = std::max<size_t>(1, kLeastElements / std::max<size_t>(1, length));
  const size_t share = std::max(least, (count + tiles - 1) / tiles);
  for (size_t at = 0; at < count; at += share)
    lines.parts.push_back({at, std::min(count, at + share), static_cast<unsigned>(lines.parts.size())});
  return lines;
}

Tensor line_variable(Lowering& lowering, const Lines& lines, poplar::Type type, size_t width, const std::string& name) {
  const Tensor made = lowering.graph().addVariable(type, {lines.count, width}, name);
  poplar::Graph::TileToTensorMapping mapping(lines.parts.size());
  for (const Lines::Part& part : lines.parts) mapping[part.tile].emplace_back(part.begin * width, part.end * width);
  lowering.graph().setTileMapping(made, mapping);
  return made;
}

void add_vertices(Lowering& lowering, const Lines& lines, const std::string& codelet, const std::string& name,
                  const std::function<void(const poplar::VertexRef&, const Lines::Part&)>& connect) {
  poplar::Graph& graph = lowering.graph();
  const poplar::ComputeSet set = graph.addComputeSet(name);
  for (const Lines::Part& part : lines.parts) {
    const poplar::VertexRef vertex = graph.addVertex(set, codelet);
    graph.setTileMapping(vertex, part.tile);
    connect(vertex, part);
  }
  lowering.program().add(poplar::program::Execute(set, name));
}

Tensor part_of(const Tensor& lines, const Lines::Part& part) { return lines.slice(part.begin, part.end, 0).flatten(); }

}  // namespace transom::ipu
