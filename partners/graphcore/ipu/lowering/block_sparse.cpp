// SPDX-License-Identifier: Apache-2.0
#include "ipu/lowering/block_sparse.h"

#include <cstring>
#include <deque>
#include <map>
#include <string_view>

namespace transom::ipu {
namespace {

// Calls body(block, bytes of a row of it, place of the row).
template <typename Body>
void for_each_block_row(const backend::Type& type, Body&& body) {
  constexpr int64_t kBlock = BlockMask::kBlock;
  const size_t size = backend::element_size(type.dtype), inner = static_cast<size_t>(type.shape[1]) * size,
               row_bytes = kBlock * size, blocks = inner / row_bytes;
  for (size_t row = 0; row < static_cast<size_t>(type.shape[0]); ++row)
    for (size_t k = 0; k < blocks; ++k) body(row / kBlock * blocks + k, row % kBlock, row * inner + k * row_bytes);
}

// Minus zero is zero.
bool has_number(const std::byte* at, size_t bytes, size_t size) {
  for (size_t i = 0; i < bytes; i += size) {
    if (size == 2) {
      uint16_t value;
      std::memcpy(&value, at + i, sizeof value);
      if (value & 0x7fff) return true;
    } else {
      uint32_t value;
      std::memcpy(&value, at + i, sizeof value);
      if (value & 0x7fffffff) return true;
    }
  }
  return false;
}

}  // namespace

std::vector<bool> prunable_weights(const transom_graph& graph) {
  std::map<int32_t, bool> weights;  // value: as "linear" nodes alone read it
  for (size_t i = 0; i < graph.inputs_count; ++i) {
    const backend::Type type = backend::type_of(graph, graph.inputs[i]);
    const bool real = type.dtype == TRANSOM_FLOAT16 || type.dtype == TRANSOM_FLOAT32;
    if ((graph.values[graph.inputs[i]].flags & TRANSOM_VALUE_FROZEN) && real && type.rank() == 2 && type.count() > 0 &&
        type.shape[0] % BlockMask::kBlock == 0 && type.shape[1] % BlockMask::kBlock == 0)
      weights[graph.inputs[i]] = false;
  }
  for (const transom_node& node : plugin::Nodes(graph))
    for (size_t i = 0; i < node.inputs_count; ++i) {
      const auto found = weights.find(node.inputs[i]);
      if (found == weights.end()) continue;
      if (std::string_view(node.op) == "linear" && i == 1) found->second = true;
      else weights.erase(found);
    }
  std::vector<bool> result;
  for (size_t i = 0; i < graph.inputs_count; ++i) {
    const auto found = weights.find(graph.inputs[i]);
    result.push_back(found != weights.end() && found->second);
  }
  return result;
}

std::optional<BlockMask> blocks_of(const backend::Type& type, const std::byte* weights) {
  constexpr int64_t kBlock = BlockMask::kBlock;
  BlockMask mask;
  mask.kept.assign(static_cast<size_t>(type.shape[0] / kBlock * (type.shape[1] / kBlock)), 0);
  const size_t size = backend::element_size(type.dtype);
  for_each_block_row(type, [&](size_t block, size_t, size_t place) {
    if (!mask.kept[block] && has_number(weights + place, kBlock * size, size)) mask.kept[block] = 1, ++mask.count;
  });
  if (2 * mask.count > mask.kept.size()) return std::nullopt;
  return mask;
}

std::vector<std::byte> packed_blocks(const backend::Type& type, const BlockMask& mask, const std::byte* weights) {
  constexpr int64_t kBlock = BlockMask::kBlock;
  const size_t row_bytes = kBlock * backend::element_size(type.dtype);
  std::vector<size_t> places(mask.kept.size());
  for (size_t i = 0, next = 0; i < places.size(); ++i) places[i] = mask.kept[i] ? next++ : SIZE_MAX;
  std::vector<std::byte> packed(mask.count * kBlock * row_bytes);
  for_each_block_row(type, [&](size_t block, size_t row, size_t place) {
    if (mask.kept[block])
      std::memcpy(packed.data() + (places[block] * kBlock + row) * row_bytes, weights + place, row_bytes);
  });
  return packed;
}

struct KeptGraph::Storage {
  explicit Storage(const plugin::Graph& graph) {
    for (const plugin::Value& value : graph.values)
      values.push_back(
          {value.dtype, static_cast<int32_t>(value.shape.size()), value.shape.data(), value.arena_offset, value.flags});
    for (const plugin::Node& node : graph.nodes) {
      const auto& list = attributes.emplace_back(node.attributes.view());
      const transom_graph* region = nullptr;
      if (node.region) region = &regions.emplace_back(std::make_unique<Storage>(*node.region))->graph;
      nodes.push_back({sizeof(transom_node), node.op.c_str(), node.scope.c_str(), node.inputs.data(),
                       node.inputs.size(), node.outputs.data(), node.outputs.size(), list.data(), list.size(), region});
    }
    this->graph = {sizeof(transom_graph), values.data(),       values.size(),        nodes.data(),         nodes.size(),
                   graph.inputs.data(),   graph.inputs.size(), graph.outputs.data(), graph.outputs.size(), 0};
  }
  std::unique_ptr<const plugin::Graph> owned;  // of the outermost one
  std::vector<transom_value> values;
  std::vector<transom_node> nodes;
  std::deque<std::vector<transom_attribute>> attributes;
  std::deque<std::unique_ptr<Storage>> regions;
  transom_graph graph{};
};

KeptGraph::KeptGraph(const transom_graph& graph) {
  auto owned = std::make_unique<const plugin::Graph>(graph);
  storage_ = std::make_unique<Storage>(*owned);
  storage_->owned = std::move(owned);
}
KeptGraph::~KeptGraph() = default;
const transom_graph& KeptGraph::view() const { return storage_->graph; }

}  // namespace transom::ipu
