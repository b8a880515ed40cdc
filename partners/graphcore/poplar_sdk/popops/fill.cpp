// SPDX-License-Identifier: Apache-2.0
#include "popops/Fill.hpp"

#include "popops/codelets.hpp"
#include "simulator/half.h"
#include "simulator/kernels.h"

namespace popops {

using namespace ipu_emulator;

namespace {

const RegisterKernel kFillKernel("fill", [](const Step& step, Reader& parameters) -> std::function<void(Memory&)> {
  expect_tensors(step, 0, 1);
  const poplar::Tensor t = step.writes[0];
  const double real = parameters.real();
  const int64_t integer = parameters.signed_number();
  return [=](Memory& memory) {
    const Access out(memory, t, false, true);
    std::byte value[8];
    store_number(t.elementType(), value, real, integer);
    const size_t size = size_of(t.elementType());
    for (size_t i = 0; i < t.numElements(); ++i) std::memcpy(out.as<std::byte>() + i * size, value, size);
  };
});

}  // namespace

void addCodelets(poplar::Graph& graph) { graph.state()->libraries["popops"] = true; }

void fill_with(poplar::Graph& graph, const poplar::Tensor& t, poplar::program::Sequence& prog, double real,
               int64_t integer, const poplar::DebugContext& debugContext) {
  if (t.numElements() == 0) return;
  Operation operation;
  operation.name = debugContext.getPathName() + "/fill";
  operation.codelet = "fill " + t.elementType().toString();
  operation.writes = {t};
  operation.cycles = [](uint64_t count) { return 20 + count / 2; };
  operation.kernel = "fill";
  Writer parameters;
  parameters.real(real);
  parameters.signed_number(integer);
  operation.parameters = std::move(parameters.bytes);
  add_operation(graph, prog, std::move(operation));
}

}  // namespace popops
