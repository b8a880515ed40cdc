// SPDX-License-Identifier: Apache-2.0
#include "popops/Fill.hpp"

#include "popops/codelets.hpp"
#include "simulator/half.h"
#include "simulator/model.h"

namespace popops {

using namespace ipu_emulator;

void addCodelets(poplar::Graph& graph) { graph.state()->libraries["popops"] = true; }

void fill_with(poplar::Graph& graph, const poplar::Tensor& t, poplar::program::Sequence& prog, double real,
               int64_t integer, const poplar::DebugContext& debugContext) {
  if (t.numElements() == 0) return;
  Operation operation;
  operation.name = debugContext.getPathName() + "/fill";
  operation.codelet = "fill " + t.elementType().toString();
  operation.writes = {t};
  operation.cycles = [](uint64_t count) { return 20 + count / 2; };
  operation.run = [=](Memory& memory) {
    const Access out(memory, t, false, true);
    std::byte value[8];
    store_number(t.elementType(), value, real, integer);
    const size_t size = size_of(t.elementType());
    for (size_t i = 0; i < t.numElements(); ++i) std::memcpy(out.as<std::byte>() + i * size, value, size);
  };
  add_operation(graph, prog, std::move(operation));
}

}  // namespace popops
