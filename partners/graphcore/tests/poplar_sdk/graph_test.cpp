// SPDX-License-Identifier: Apache-2.0
// Views, layouts, and the rules of graphs.
#include <gtest/gtest.h>

#include <numeric>
#include <poplar/Engine.hpp>
#include <poplar/Vertex.hpp>
#include <poplin/MatMul.hpp>
#include <poplin/codelets.hpp>
#include <popops/ElementWise.hpp>
#include <popops/Reduce.hpp>
#include <popops/codelets.hpp>
#include <poputil/TileMapping.hpp>
#include <random>

#include "simulator/compile.h"

namespace {

using namespace poplar;
namespace pe = popops::expr;

class Twice : public Vertex {
 public:
  Input<Vector<float>> in;
  Output<Vector<float>> out;
  bool compute() {
    for (unsigned i = 0; i < in.size(); ++i) out[i] = 2 * in[i];
    return true;
  }
};
EMULATED_CODELET(Twice, "Twice", in, out)

struct IpuGraph : testing::Test {
  Device device{Target::createIPUTarget(1, 16, "ipu2")};
  Graph graph{device.getTarget()};
  program::Sequence program;

  IpuGraph() {
    popops::addCodelets(graph);
    poplin::addCodelets(graph);
  }
  Tensor input(const std::vector<size_t>& shape, const std::string& name) {
    const Tensor tensor = graph.addVariable(FLOAT, shape, name);
    poputil::mapTensorLinearly(graph, tensor, 1, 1);
    program.add(program::Copy(graph.addHostToDeviceFIFO(name, FLOAT, tensor.numElements()), tensor));
    return tensor;
  }
  // What `out` becomes where each input holds 0, 1, 2 ...
  std::vector<float> run(const Tensor& out, const std::vector<Tensor>& inputs) {
    program.add(program::Copy(out, graph.addDeviceToHostFIFO("out", FLOAT, out.numElements())));
    Engine engine(graph, {program});
    engine.load(device);
    std::vector<std::vector<float>> values;
    values.reserve(inputs.size());
    for (size_t i = 0; i < inputs.size(); ++i) {
      values.emplace_back(inputs[i].numElements());
      std::iota(values.back().begin(), values.back().end(), 0.0f);
      engine.connectStream("in" + std::to_string(i), values.back().data(), values.back().data() + values.back().size());
    }
    std::vector<float> result(out.numElements());
    engine.connectStream("out", result.data(), result.data() + result.size());
    engine.run(0);
    return result;
  }
};

TEST_F(IpuGraph, ViewsShowTheElementsThatTheySay) {
  const Tensor x = input({4, 6}, "in0");
  // Reversed, every second column, transposed, and reshaped so that no strides say it.
  const Tensor view = x.reverse(1).subSample(2, 1).transpose().reshape({6, 2});
  EXPECT_EQ(run(view, {x}), (std::vector<float>{5, 11, 17, 23, 3, 9, 15, 21, 1, 7, 13, 19}));
}

TEST_F(IpuGraph, ConcatenationsAndBroadcastsAreViews) {
  const Tensor x = input({2, 2}, "in0");
  const Tensor view = concat(x, x.slice(0, 1, 1).broadcast(2, 1), 1);
  EXPECT_EQ(run(view, {x}), (std::vector<float>{0, 1, 0, 0, 2, 3, 2, 2}));
}

TEST_F(IpuGraph, ASliceOutsideOfTheTensorIsRefused) {
  const Tensor x = input({4, 6}, "in0");
  EXPECT_THROW(x.slice(2, 5, 0), tensor_error);
  EXPECT_THROW(x.reshape({5, 5}), tensor_error);
  EXPECT_THROW(x.dimShuffle({0, 0}), tensor_error);
}

TEST_F(IpuGraph, LinearMappingsGiveEachTileItsShareInOrder) {
  const Tensor x = graph.addVariable(FLOAT, {100}, "x");
  poputil::mapTensorLinearly(graph, x, 1, 4);
  const Graph::TileToTensorMapping mapping = graph.getTileMapping(x);
  ASSERT_EQ(mapping.size(), 16u);
  EXPECT_EQ(mapping[0], (std::vector<Interval>{{0, 8}}));
  EXPECT_EQ(mapping[12], (std::vector<Interval>{{96, 100}}));
  EXPECT_TRUE(mapping[13].empty());
}

TEST_F(IpuGraph, AnElementWithoutATileIsRefusedByItsName) {
  const Tensor x = graph.addVariable(FLOAT, {10}, "forgotten");
  graph.setTileMapping(x.slice(0, 9), 3);
  try {
    popops::map(graph, pe::UnaryOp(pe::UnaryOpType::SQUARE, pe::_1), {x}, program);
    FAIL() << "an unmapped element was taken";
  } catch (const invalid_tile_mapping& error) {
    EXPECT_NE(std::string(error.what()).find("element 9 of \"forgotten\""), std::string::npos) << error.what();
  }
}

TEST_F(IpuGraph, VerticesComputeWithWhatIsConnected) {
  const Tensor x = input({8}, "in0");
  const Tensor y = graph.addVariable(FLOAT, {8}, "y");
  poputil::mapTensorLinearly(graph, y, 1, 1);
  const ComputeSet set = graph.addComputeSet("twice");
  for (unsigned i = 0; i < 2; ++i) {
    const VertexRef vertex = graph.addVertex(set, "Twice");
    graph.connect(vertex["in"], x.slice(4 * i, 4 * i + 4));
    graph.connect(vertex["out"], y.slice(4 * i, 4 * i + 4));
    graph.setTileMapping(vertex, i);
  }
  program.add(program::Execute(set));
  EXPECT_EQ(run(y, {x}), (std::vector<float>{0, 2, 4, 6, 8, 10, 12, 14}));
}

TEST_F(IpuGraph, AComputeSetThatReadsWhatItWritesIsRefused) {
  const Tensor x = graph.addVariable(FLOAT, {12}, "x");
  graph.setTileMapping(x, 0);
  const ComputeSet set = graph.addComputeSet("race");
  for (unsigned i = 0; i < 2; ++i) {
    const VertexRef vertex = graph.addVertex(set, "Twice");
    graph.connect(vertex["in"], x.slice(4 * i, 4 * i + 4));
    graph.connect(vertex["out"], x.slice(4 * i + 4, 4 * i + 8));  // the second one reads what the first one writes
    graph.setTileMapping(vertex, i);
  }
  program.add(program::Execute(set));
  EXPECT_THROW(Engine(graph, {program}), graph_error);
}

TEST_F(IpuGraph, AFieldThatIsNotConnectedIsRefused) {
  const ComputeSet set = graph.addComputeSet("open");
  graph.setTileMapping(graph.addVertex(set, "Twice"), 0);
  program.add(program::Execute(set));
  EXPECT_THROW(Engine(graph, {program}), graph_error);
}

TEST_F(IpuGraph, WhatDoesNotFitATileIsRefusedByTileAndTensor) {
  const Tensor x = graph.addVariable(FLOAT, {200, 1024}, "large");  // 800 KiB
  graph.setTileMapping(x, 7);
  program.add(program::Copy(graph.addHostToDeviceFIFO("in0", FLOAT, x.numElements()), x));
  program.add(program::Copy(x, graph.addDeviceToHostFIFO("out", FLOAT, x.numElements())));
  try {
    Engine engine(graph, {program});
    FAIL() << "800 KiB were put on one tile";
  } catch (const graph_memory_allocation_error& error) {
    const std::string text = error.what();
    EXPECT_NE(text.find("tile 7 "), std::string::npos) << text;
    EXPECT_NE(text.find("\"large\""), std::string::npos) << text;
  }
  EXPECT_NO_THROW(compileGraph(graph, {program}, {{"debug.allowOutOfMemory", "true"}}));
}

// Variables whose lives do not overlap share a tile's memory.
TEST_F(IpuGraph, TemporariesShareMemory) {
  Tensor x = input({16, 4096}, "in0");
  for (int i = 0; i < 12; ++i) x = popops::map(graph, pe::UnaryOp(pe::UnaryOpType::SQUARE, pe::_1), {x}, program);
  program.add(program::Copy(x, graph.addDeviceToHostFIFO("out", FLOAT, x.numElements())));
  const auto compiled = compileGraph(graph, {program}).compiled();
  const uint64_t one = 4096 * 4;  // bytes of a variable on a tile
  EXPECT_GE(compiled->tiles[3].temporary, 2 * one);
  EXPECT_LT(compiled->tiles[3].temporary, 4 * one);
}

TEST_F(IpuGraph, OperandsOfOtherTilesCostExchange) {
  const Tensor x = input({64}, "in0");
  const Tensor here = popops::map(graph, pe::UnaryOp(pe::UnaryOpType::SQUARE, pe::_1), {x}, program, "here");
  const Tensor there = graph.addVariable(FLOAT, {64}, "there");
  graph.setTileMapping(there, 0);
  program.add(program::Copy(here, there));
  const auto compiled = compileGraph(graph, {program}).compiled();
  uint64_t in_place = 1, moved = 0;
  for (const auto& phase : compiled->programs[0]) {
    if (phase.name == "here/map") in_place = phase.exchange;
    if (phase.step->kind == ipu_emulator::Step::Kind::kCopy) moved = phase.exchange;
  }
  EXPECT_EQ(in_place, 0u);
  EXPECT_EQ(moved, 60u);  // 60 floats come to tile 0, 4 bytes a cycle
}

TEST_F(IpuGraph, ProductsAreThoseOfTheDefinition) {
  const Tensor a = input({2, 5, 7}, "in0"), b = input({2, 7, 35}, "in1");
  const std::vector<float> found = run(poplin::matMulGrouped(graph, a, b, program, FLOAT), {a, b});
  for (size_t g = 0; g < 2; ++g)
    for (size_t i = 0; i < 5; ++i)
      for (size_t j = 0; j < 35; ++j) {
        double sum = 0;
        for (size_t k = 0; k < 7; ++k) sum += double((g * 5 + i) * 7 + k) * double((g * 7 + k) * 35 + j);
        EXPECT_FLOAT_EQ(found[(g * 5 + i) * 35 + j], static_cast<float>(sum));
      }
}

TEST_F(IpuGraph, CallsWithoutTheirCodeletsAreRefused) {
  Graph bare(device.getTarget());
  const Tensor x = bare.addVariable(FLOAT, {4}, "x");
  poputil::mapTensorLinearly(bare, x);
  EXPECT_THROW(popops::map(bare, pe::UnaryOp(pe::UnaryOpType::SQUARE, pe::_1), {x}, program), graph_error);
}

TEST_F(IpuGraph, StreamsMustBeConnectedAndLargeEnough) {
  const Tensor x = input({4}, "in0");
  Engine engine(graph, {program});
  engine.load(device);
  EXPECT_THROW(engine.run(0), stream_connection_error);
  float values[2] = {};
  engine.connectStream("in0", values, values + 2);
  EXPECT_THROW(engine.run(0), stream_connection_error);
  EXPECT_THROW(engine.connectStream("no such stream", values), stream_connection_error);
}

TEST(IpuTarget, MachinesAreThoseThatExist) {
  EXPECT_EQ(Target::createIPUTarget(4, "bow").getNumTiles(), 4 * 1472u);
  EXPECT_THROW(Target::createIPUTarget(3, "bow"), invalid_option);
  EXPECT_THROW(Target::createIPUTarget(1, "ipu9"), invalid_option);
}

}  // namespace
