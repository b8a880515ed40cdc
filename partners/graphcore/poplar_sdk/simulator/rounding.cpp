// SPDX-License-Identifier: Apache-2.0
#include "simulator/rounding.h"

#include "poplar/CSRFunctions.hpp"
#include "poprand/RandomGen.hpp"
#include "poprand/codelets.hpp"
#include "simulator/kernels.h"

namespace ipu_emulator {
namespace {

// A step that no tile computes.
void add_setting(poplar::program::Sequence& program, const std::string& name, const char* kernel,
                 std::string parameters, std::vector<poplar::Tensor> reads) {
  auto step = std::make_shared<Step>();
  step->kind = Step::Kind::kOperation;
  step->name = name;
  step->kernel = kernel;
  step->parameters = std::move(parameters);
  step->reads = std::move(reads);
  add_step(program, std::move(step));
}

const RegisterKernel kRoundingKernel("setStochasticRounding",
                                     [](const Step& step, Reader& parameters) -> std::function<void(Memory&)> {
                                       expect_tensors(step, 0, 0);
                                       const bool on = parameters.number(1) != 0;
                                       return [on](Memory& memory) { memory.stochastic_rounding = on; };
                                     });

const RegisterKernel kSeedKernel("setSeed", [](const Step& step, Reader& parameters) -> std::function<void(Memory&)> {
  expect_tensors(step, 1, 0);
  const poplar::Tensor seed = step.reads[0];
  Reader::expect(seed.elementType() == poplar::UNSIGNED_INT && seed.numElements() == 2, "a seed of two numbers");
  const uint64_t modifier = parameters.number(UINT32_MAX);
  return [=](Memory& memory) {
    const Access words(memory, seed, true, false);
    const auto* word = words.as<uint32_t>();
    memory.seed = (static_cast<uint64_t>(word[1]) << 32 | word[0]) + modifier * 0xd1342543de82ef95;
    memory.draws = 0;
  };
});

}  // namespace
}  // namespace ipu_emulator

namespace poplar {

void setStochasticRounding(Graph&, program::Sequence& prog, bool enable, const DebugContext& debugContext) {
  ipu_emulator::add_setting(prog, debugContext.getPathName() + "/setStochasticRounding", "setStochasticRounding",
                            std::string(1, enable ? 1 : 0), {});
}

void setFloatingPointBehaviour(Graph& graph, program::Sequence& prog, const FloatingPointBehaviour& behaviour,
                               const DebugContext& debugContext) {
  if (behaviour.inv || behaviour.div0 || behaviour.oflo || behaviour.nanoo)
    throw graph_error(
        "setFloatingPointBehaviour: expected inv, div0, oflo and nanoo to be false: they are not emulated");
  setStochasticRounding(graph, prog, behaviour.esr, debugContext);
}

}  // namespace poplar

namespace poprand {

void addCodelets(poplar::Graph& graph) { graph.state()->libraries["poprand"] = true; }

void setSeed(poplar::Graph& graph, const poplar::Tensor& masterSeed, uint32_t seedModifier,
             poplar::program::Sequence& prog, const poplar::DebugContext& debugContext) {
  if (!graph.state()->libraries.count("poprand")) throw poplar::graph_error("expected poprand::addCodelets first");
  if (masterSeed.elementType() != poplar::UNSIGNED_INT || masterSeed.numElements() != 2)
    throw poplar::graph_error("poprand::setSeed: expected two numbers of unsigned int, found " +
                              masterSeed.shapeToString() + " of " + masterSeed.elementType().toString());
  ipu_emulator::Writer parameters;
  parameters.number(seedModifier);
  ipu_emulator::add_setting(prog, debugContext.getPathName() + "/setSeed", "setSeed", std::move(parameters.bytes),
                            {masterSeed});
}

}  // namespace poprand
