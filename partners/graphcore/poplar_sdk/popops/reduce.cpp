// SPDX-License-Identifier: Apache-2.0
#include "popops/Reduce.hpp"

#include <algorithm>
#include <limits>
#include <map>

#include "poputil/TileMapping.hpp"
#include "simulator/kernels.h"
#include "simulator/rounding.h"

namespace ipu_emulator {
namespace {

using popops::Operation;

template <typename T>
T neutral(Operation op) {
  constexpr bool floating = std::is_floating_point_v<T>;
  switch (op) {
    case Operation::MUL:
    case Operation::LOGICAL_AND:
      return 1;
    case Operation::MAX:
      return floating ? -std::numeric_limits<T>::infinity() : std::numeric_limits<T>::lowest();
    case Operation::MIN:
      return floating ? std::numeric_limits<T>::infinity() : std::numeric_limits<T>::max();
    default:
      return 0;
  }
}

template <typename T>
T join(Operation op, T x, T y) {
  switch (op) {
    case Operation::ADD:
      if constexpr (std::is_integral_v<T>)
        return static_cast<T>(static_cast<std::make_unsigned_t<T>>(x) + static_cast<std::make_unsigned_t<T>>(y));
      return x + y;
    case Operation::SQUARE_ADD:
      return static_cast<T>(x + y * y);
    case Operation::MUL:
      return static_cast<T>(x * y);
    case Operation::MAX:
      return x > y || x != x ? x : y;  // NaN stays
    case Operation::MIN:
      return x < y || x != x ? x : y;
    case Operation::LOGICAL_AND:
      return static_cast<T>(x && y);
    default:
      return static_cast<T>(x || y);
  }
}

// to[o] of from[o][i], in sixteen partial results.
template <typename T>
void reduce_rows(Operation op, const T* from, T* to, size_t outer, size_t inner) {
  constexpr size_t kLanes = 16;
  for (size_t o = 0; o < outer; ++o, from += inner) {
    T lanes[kLanes];
    std::fill_n(lanes, kLanes, neutral<T>(op));
    size_t i = 0;
    if (op == Operation::ADD) {
      for (; i + kLanes <= inner; i += kLanes)
        for (size_t l = 0; l < kLanes; ++l) lanes[l] += from[i + l];
    } else {
      for (; i + kLanes <= inner; i += kLanes)
        for (size_t l = 0; l < kLanes; ++l) lanes[l] = join(op, lanes[l], from[i + l]);
    }
    for (size_t l = 0; i < inner; ++i, ++l) lanes[l] = join(op, lanes[l], from[i]);
    const Operation last = op == Operation::SQUARE_ADD ? Operation::ADD : op;
    for (size_t width = kLanes / 2; width; width /= 2)
      for (size_t l = 0; l < width; ++l) lanes[l] = join(last, lanes[l], lanes[l + width]);
    to[o] = lanes[0];
  }
}

template <typename T>
void run_reduce(Memory& memory, Operation op, const poplar::Tensor& in, const poplar::Tensor& out) {
  // in: [outer, inner]
  const size_t outer = in.dim(0), inner = in.dim(1);
  const Access to(memory, out, false, true);
  if (in.elementType() == poplar::HALF) {
    const Access from(memory, in, true, false);
    std::vector<float> wide(outer * inner), sums(outer);
    for (size_t i = 0; i < wide.size(); ++i) wide[i] = from_half(from.as<uint16_t>()[i]);
    reduce_rows(op, wide.data(), sums.data(), outer, inner);
    Rounding rounding(memory);
    for (size_t o = 0; o < outer; ++o) {
      if (out.elementType() == poplar::HALF) to.as<uint16_t>()[o] = rounding(sums[o]);
      else to.as<float>()[o] = sums[o];
    }
    return;
  }
  const Access from(memory, in, true, false);
  reduce_rows(op, from.as<const T>(), to.as<T>(), outer, inner);
}

const RegisterKernel kReduceKernel("reduce", [](const Step& step, Reader& parameters) -> std::function<void(Memory&)> {
  expect_tensors(step, 1, 1);
  const poplar::Tensor rows = step.reads[0], out = step.writes[0];
  const poplar::Type type = rows.elementType();
  const auto op = static_cast<Operation>(parameters.number(127));
  Reader::expect(rows.rank() == 2 && rows.dim(0) == out.numElements() &&
                     (type == out.elementType() || (type == poplar::HALF && out.elementType() == poplar::FLOAT)),
                 "a reduction of rows");
  if (type == poplar::INT) return [=](Memory& memory) { run_reduce<int32_t>(memory, op, rows, out); };
  if (type == poplar::UNSIGNED_INT) return [=](Memory& memory) { run_reduce<uint32_t>(memory, op, rows, out); };
  if (type == poplar::BOOL) return [=](Memory& memory) { run_reduce<uint8_t>(memory, op, rows, out); };
  Reader::expect(type == poplar::FLOAT || type == poplar::HALF, "a reduction of float, half, int or bool");
  return [=](Memory& memory) { run_reduce<float>(memory, op, rows, out); };
});

// In stages, as popops does it: each tile what it holds, then the partial results of all tiles spread over the graph's
// tiles, then, where there are fewer results than tiles, those of a result on one tile.
std::vector<TileWork> reduction_work(const poplar::Graph& graph, const poplar::Tensor& rows, size_t size) {
  const Layout layout = layout_of(rows);
  const uint64_t outer = rows.dim(0), inner = rows.dim(1), tiles = graph.tiles();
  std::map<uint32_t, uint64_t> held;
  uint64_t partials = 0;  // pairs of a tile and a result
  for (const Run& run : layout.runs) {
    held[run.tile] += run.end - run.begin;
    partials += (run.end - 1) / inner - run.begin / inner + 1;
  }
  if (!layout.exact) {  // too finely spread to say
    const uint64_t share = (outer * inner + tiles - 1) / tiles;
    held.clear();
    for (uint32_t tile = 0; tile < tiles; ++tile) held[graph.firstTile() + tile] = share;
    partials = outer * inner;
  }
  constexpr uint64_t kPartialBytes = 4, kStageCycles = 140;  // of float; starting and synchronising a stage
  const uint64_t width = std::max<uint64_t>(1, 8 / size);
  uint64_t combine = 0, received = 0;
  if (partials > outer) {
    const uint64_t share = (partials + tiles - 1) / tiles;
    combine += kStageCycles + share / 2;
    received += share * kPartialBytes;
    if (const uint64_t spread = std::min(tiles / outer, partials / outer); spread > 1) {
      combine += kStageCycles + spread / 2;
      received += spread * kPartialBytes;
    }
    for (uint32_t tile = 0; tile < tiles; ++tile) held.try_emplace(graph.firstTile() + tile, 0);
  }
  std::vector<TileWork> work;
  for (const auto& [tile, elements] : held)
    work.push_back({.tile = tile,
                    .cycles = 100 + elements / width + combine,
                    .received = received,
                    .temporary = received,
                    .vertices = 6});
  return work;
}

}  // namespace
}  // namespace ipu_emulator

namespace popops {

using namespace ipu_emulator;

poplar::Tensor reduce(poplar::Graph& graph, const poplar::Tensor& in, const poplar::Type& outType,
                      const std::vector<std::size_t>& dims, ReduceParams params, poplar::program::Sequence& prog,
                      const poplar::DebugContext& debugContext, const poplar::OptionFlags&) {
  if (!graph.state()->libraries.count("popops")) throw poplar::graph_error("expected popops::addCodelets first");
  const poplar::Type type = in.elementType();
  if (type != poplar::FLOAT && type != poplar::HALF && type != poplar::INT && type != poplar::UNSIGNED_INT &&
      type != poplar::BOOL)
    throw poplar::graph_error("popops::reduce: expected float, half, int, unsigned int or bool, found " +
                              type.toString());
  if (outType != type && !(type == poplar::HALF && outType == poplar::FLOAT))
    throw poplar::graph_error("popops::reduce: expected a result of " + type.toString());
  std::vector<unsigned> order;
  std::vector<size_t> kept;
  size_t inner = 1;
  for (unsigned i = 0; i < in.rank(); ++i)
    if (std::find(dims.begin(), dims.end(), i) == dims.end()) order.push_back(i), kept.push_back(in.dim(i));
  for (const size_t dim : dims)
    order.push_back(static_cast<unsigned>(dim)), inner *= in.dim(static_cast<unsigned>(dim));
  size_t outer = 1;
  for (const size_t extent : kept) outer *= extent;
  poplar::Tensor out = graph.addVariable(outType, kept, debugContext);
  poputil::mapTensorLinearly(graph, out);
  if (outer == 0) return out;
  const poplar::Tensor rows = in.dimShuffle(order).reshape({outer, inner});
  ::ipu_emulator::Operation operation;
  operation.name = debugContext.getPathName() + "/reduce";
  operation.codelet = "reduce " + type.toString();
  operation.reads = {rows};
  operation.writes = {out};
  operation.flops = outer * inner;
  operation.cycles = [](uint64_t) { return uint64_t{0}; };
  operation.kernel = "reduce";
  operation.parameters = std::string(1, static_cast<char>(params.op));
  add_operation(graph, prog, std::move(operation));
  // What tiles do is said by where the operand lies, not by where the result does.
  prog.step()->children.back()->work = reduction_work(graph, rows, size_of(type));
  return out;
}

}  // namespace popops
