// SPDX-License-Identifier: Apache-2.0
// Programs over several IPUs: their clocks as a pipeline, what micro-batches under way hold, and clocks without values.
#include "simulator/pipeline.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <poplar/DeviceManager.hpp>
#include <poplar/Engine.hpp>
#include <popops/ElementWise.hpp>
#include <popops/Reduce.hpp>
#include <popops/codelets.hpp>
#include <poputil/TileMapping.hpp>

namespace {

using namespace poplar;
namespace pe = popops::expr;

constexpr size_t kElements = 64;

// x -> a = 2x on IPU 0 -> b = 3a on IPU 1 -> c = b + a on IPU 0, which needs its own a again -> d = c + 1.
struct IpuPipeline : testing::Test {
  Device device{Target::createIPUTarget(2, 4, "bow")};
  Graph graph{device.getTarget()};
  std::vector<Graph> ipus{graph.createVirtualGraph(0, 4), graph.createVirtualGraph(4, 8)};
  program::Sequence program;
  Tensor a, b, c, d;

  IpuPipeline() {
    popops::addCodelets(graph);
    const Tensor x = variable(0, "x");
    program.add(program::Copy(graph.addHostToDeviceFIFO("in", FLOAT, kElements), x));
    a = map(0, pe::BinaryOp(pe::BinaryOpType::MULTIPLY, pe::_1, pe::Const(2.0f)), {x}, "a");
    b = map(1, pe::BinaryOp(pe::BinaryOpType::MULTIPLY, pe::_1, pe::Const(3.0f)), {moved(1, a)}, "b");
    c = map(0, pe::BinaryOp(pe::BinaryOpType::ADD, pe::_1, pe::_2), {moved(0, b), a}, "c");
    d = map(0, pe::BinaryOp(pe::BinaryOpType::ADD, pe::_1, pe::Const(1.0f)), {c}, "d");
    leave(d);
  }
  void leave(const Tensor& tensor) {
    program.add(program::Copy(tensor, graph.addDeviceToHostFIFO("out", FLOAT, kElements)));
  }
  Tensor variable(size_t ipu, const std::string& name) {
    const Tensor made = ipus[ipu].addVariable(FLOAT, {kElements}, name);
    poputil::mapTensorLinearly(ipus[ipu], made);
    return made;
  }
  Tensor map(size_t ipu, const pe::Expr& tree, const std::vector<Tensor>& inputs, const std::string& name) {
    const Tensor made = variable(ipu, name);
    popops::mapWithOutput(ipus[ipu], tree, inputs, made, program, name);
    return made;
  }
  Tensor moved(size_t ipu, const Tensor& tensor) {
    const Tensor made = variable(ipu, "moved");
    program.add(program::Copy(tensor, made, false, "move"));
    return made;
  }
};

TEST_F(IpuPipeline, AMicroBatchComesToTheFirstIpuTwice) {
  const auto compiled = compileGraph(graph, {program}).compiled();
  const ipu_emulator::Pipeline pipeline = ipu_emulator::pipeline_of(*compiled, 0);
  EXPECT_EQ(pipeline.visits, (std::vector<uint32_t>{0, 1, 0}));
  // All that is not the host's belongs to one of them, and the slower one says how often a micro-batch enters.
  uint64_t cycles = 0, host = 0;
  for (const ipu_emulator::Phase& phase : compiled->programs[0]) cycles += phase.cycles(), host += phase.host;
  EXPECT_EQ(pipeline.of_ipu[0] + pipeline.of_ipu[1], cycles - host);
  EXPECT_GT(pipeline.of_ipu[1], 0u);
  EXPECT_EQ(pipeline.slowest, std::max(pipeline.of_ipu[0], pipeline.of_ipu[1]));
  EXPECT_EQ(pipeline.cycles(1), 3 * pipeline.slowest);
  EXPECT_EQ(pipeline.cycles(8), 10 * pipeline.slowest);
}

TEST_F(IpuPipeline, WhatIsNeededAgainIsHeldForEachMicroBatchUnderWay) {
  const auto compiled = compileGraph(graph, {program}).compiled();
  const ipu_emulator::Pipeline pipeline = ipu_emulator::pipeline_of(*compiled, 0);
  uint64_t stashed = 0, sums = 0, elsewhere = 0;
  for (size_t tile = 0; tile < 8; ++tile) {
    (tile < 4 ? stashed : elsewhere) += pipeline.stashed[tile];
    sums += pipeline.accumulators[tile];
  }
  EXPECT_EQ(stashed, 2 * kElements * sizeof(float));  // a, of two more
  EXPECT_EQ(sums, kElements * sizeof(float));         // d
  EXPECT_EQ(elsewhere, kElements * sizeof(float));    // b, until it is fetched
}

// Gradients of tied embeddings: one part comes from the head, long before the other.
TEST(IpuSums, APartOfAResultIsAddedAtOnce) {
  const Device device{Target::createIPUTarget(2, 4, "bow")};
  Graph graph(device.getTarget());
  popops::addCodelets(graph);
  const std::vector<Graph> ipus{graph.createVirtualGraph(0, 4), graph.createVirtualGraph(4, 8)};
  program::Sequence program;
  const auto variable = [&](size_t ipu, const std::string& name) {
    Graph part = ipus[ipu];
    const Tensor made = part.addVariable(FLOAT, {kElements}, name);
    poputil::mapTensorLinearly(part, made);
    return made;
  };
  const auto twice = [&](size_t ipu, const Tensor& x, const Tensor& to) {
    Graph part = ipus[ipu];
    popops::mapWithOutput(part, pe::BinaryOp(pe::BinaryOpType::ADD, pe::_1, pe::_1), {x}, to, program, "twice");
  };
  const Tensor x = variable(0, "x"), first = variable(0, "first"), moved = variable(1, "moved"),
               there = variable(1, "there"), back = variable(0, "back"), sum = variable(0, "sum");
  program.add(program::Copy(graph.addHostToDeviceFIFO("in", FLOAT, kElements), x));
  twice(0, x, first);
  program.add(program::Copy(x, moved, false, "move"));
  twice(1, moved, there);
  program.add(program::Copy(there, back, false, "move"));
  Graph part = ipus[0];
  popops::mapWithOutput(part, pe::BinaryOp(pe::BinaryOpType::ADD, pe::_1, pe::_2), {back, first}, sum, program, "sum");
  program.add(program::Copy(sum, graph.addDeviceToHostFIFO("out", FLOAT, kElements)));
  const ipu_emulator::Pipeline pipeline = ipu_emulator::pipeline_of(*compileGraph(graph, {program}).compiled(), 0);
  EXPECT_EQ(pipeline.visits, (std::vector<uint32_t>{0, 1, 0}));
  uint64_t stashed = 0;
  for (size_t tile = 0; tile < 4; ++tile) stashed += pipeline.stashed[tile];
  EXPECT_EQ(stashed, kElements * sizeof(float));  // x, until it is fetched; nothing of `first`
}

TEST_F(IpuPipeline, LinksTakeTimeOfTheirOwn) {
  const auto compiled = compileGraph(graph, {program}).compiled();
  size_t crossings = 0;
  for (const ipu_emulator::Phase& phase : compiled->programs[0]) crossings += phase.link > 0;
  EXPECT_EQ(crossings, 2u);
}

TEST_F(IpuPipeline, ClocksAloneAreThoseOfARunAndGiveZeros) {
  std::vector<float> x(kElements, 1), result(kElements, 7);
  const auto run = [&](const char* machines) {
    setenv("TRANSOM_EMULATED_IPU", machines, 1);
    Engine engine(graph, {program});
    engine.load(device);
    engine.connectStream("in", x.data(), x.data() + kElements);
    engine.connectStream("out", result.data(), result.data() + kElements);
    engine.run(0);
    unsetenv("TRANSOM_EMULATED_IPU");
    return engine.running().cycles;
  };
  const uint64_t cycles = run("bow:2");
  EXPECT_EQ(result[5], 9.0f);
  EXPECT_EQ(run("bow:2:clocks"), cycles);
  EXPECT_EQ(result, std::vector<float>(kElements, 0));
}

TEST(IpuMachines, ClocksAreAWordBehindTheMachine) {
  setenv("TRANSOM_EMULATED_IPU", "ipu2:8:clocks", 1);
  const auto devices = DeviceManager::createDeviceManager().getDevices(TargetType::IPU, 4);
  ASSERT_EQ(devices.size(), 2u);
  EXPECT_EQ(devices[0].getTarget().getTargetArchString(), "ipu2");
  setenv("TRANSOM_EMULATED_IPU", "ipu2:8:clock", 1);
  EXPECT_THROW(DeviceManager::createDeviceManager().getDevices(TargetType::IPU, 4), invalid_option);
  unsetenv("TRANSOM_EMULATED_IPU");
}

TEST(IpuMapping, AnOffsetGoesRoundTheTiles) {
  const Device device{Target::createIPUTarget(1, 4, "bow")};
  Graph graph(device.getTarget());
  const Tensor x = graph.addVariable(FLOAT, {12}, "x"), y = graph.addVariable(FLOAT, {12}, "y");
  poputil::mapTensorLinearlyWithOffset(graph, x, 4, 1, 3);
  poputil::mapTensorLinearlyWithOffset(graph, y, 4, 1, 0, false);
  const auto of_x = graph.getTileMapping(x), of_y = graph.getTileMapping(y);
  const auto begin = [](const std::vector<Interval>& intervals) {
    return intervals.empty() ? 99 : intervals[0].begin();
  };
  EXPECT_EQ(begin(of_x[3]), 0u);
  EXPECT_EQ(begin(of_x[0]), 4u);
  EXPECT_EQ(begin(of_x[1]), 8u);
  EXPECT_TRUE(of_x[2].empty());
  EXPECT_EQ(begin(of_y[0]), 0u);
  EXPECT_EQ(begin(of_y[3]), 4u);
}

// Rows that lie on one tile are summed up there; columns need what other tiles have.
TEST(IpuReduce, PartialResultsComeFromOtherTilesWhereRowsDoNot) {
  const Device device{Target::createIPUTarget(1, 16, "bow")};
  Graph graph(device.getTarget());
  popops::addCodelets(graph);
  const Tensor x = graph.addVariable(FLOAT, {16, 256}, "x");
  poputil::mapTensorLinearly(graph, x, 256, 256);
  program::Sequence program;
  popops::reduce(graph, x, FLOAT, {1}, popops::Operation::ADD, program, "rows");
  popops::reduce(graph, x, FLOAT, {0}, popops::Operation::ADD, program, "columns");
  const auto compiled = compileGraph(graph, {program}).compiled();
  EXPECT_EQ(compiled->programs[0][0].received, 0u);
  EXPECT_GE(compiled->programs[0][1].received, 16 * 256 * sizeof(float));
  EXPECT_GT(compiled->programs[0][1].exchange, compiled->programs[0][0].exchange);
}

// One element that many read comes once.
TEST(IpuExchange, ABroadcastElementIsReceivedOnceByATile) {
  const Device device{Target::createIPUTarget(1, 2, "bow")};
  Graph graph(device.getTarget());
  popops::addCodelets(graph);
  program::Sequence program;
  const Tensor rows = graph.addVariable(FLOAT, {2}, "rows"), all = graph.addVariable(FLOAT, {2, 512}, "all");
  graph.setTileMapping(rows, 0);
  graph.setTileMapping(all, 1);
  program.add(program::Copy(rows.reshape({2, 1}).broadcast(512, 1), all));
  const auto compiled = compileGraph(graph, {program}).compiled();
  EXPECT_EQ(compiled->programs[0][0].received, 2 * sizeof(float));
}

// The second of two steps that do the same on the same tiles calls the code of the first.
TEST(IpuCode, AlikeStepsShareTheirCode) {
  const auto code = [](int steps, bool alike) {
    const Device device{Target::createIPUTarget(1, 2, "bow")};
    Graph graph(device.getTarget());
    popops::addCodelets(graph);
    program::Sequence program;
    for (int i = 0; i < steps; ++i) {
      const Tensor x = graph.addVariable(FLOAT, {size_t(16 + (alike ? 0 : i))}, "x");
      graph.setTileMapping(x, 0);
      popops::map(graph, pe::BinaryOp(pe::BinaryOpType::ADD, pe::_1, pe::Const(1.0f)), {x}, program,
                  "step " + std::to_string(i));
    }
    return compileGraph(graph, {program}).compiled()->tiles[0].code;
  };
  EXPECT_LT(code(4, true) - code(1, true), code(4, false) - code(1, false));
  EXPECT_GT(code(4, true), code(1, true));
}

}  // namespace
