// SPDX-License-Identifier: Apache-2.0
// Executables that are stored and come back.
#include <gtest/gtest.h>

#include <cstring>
#include <numeric>
#include <poplar/Engine.hpp>
#include <poplar/Vertex.hpp>
#include <poplin/MatMul.hpp>
#include <poplin/codelets.hpp>
#include <popops/DynamicSlice.hpp>
#include <popops/ElementWise.hpp>
#include <popops/Fill.hpp>
#include <popops/Reduce.hpp>
#include <popops/codelets.hpp>
#include <poputil/TileMapping.hpp>
#include <random>
#include <sstream>

#include "simulator/compile.h"

namespace {

using namespace poplar;
namespace pe = popops::expr;

class Scaled : public Vertex {
 public:
  Input<Vector<float>> in;
  Output<Vector<float>> out;
  float by;
  bool compute() {
    for (unsigned i = 0; i < in.size(); ++i) out[i] = by * in[i];
    return true;
  }
};
EMULATED_CODELET(Scaled, "Scaled", in, out, by)

const Target kMachine = Target::createIPUTarget(1, 16, "ipu2");

// One of every kind of step; `factor` is that of a vertex.
Executable small_program(float factor) {
  Graph graph(kMachine);
  popops::addCodelets(graph);
  poplin::addCodelets(graph);
  program::Sequence program;
  const auto variable = [&](Type type, const std::vector<size_t>& shape, const std::string& name) {
    const Tensor made = graph.addVariable(type, shape, name);
    poputil::mapTensorLinearly(graph, made, 1, 1);
    return made;
  };
  const Tensor x = variable(FLOAT, {8, 16}, "x"), places = variable(UNSIGNED_INT, {3, 1}, "places"),
               remote = variable(FLOAT, {8, 16}, "remote");
  program.add(program::Copy(graph.addHostToDeviceFIFO("x", FLOAT, 128), x));
  program.add(program::Copy(graph.addHostToDeviceFIFO("places", UNSIGNED_INT, 3), places));
  const RemoteBuffer buffer = graph.addRemoteBuffer("remote", FLOAT, 128);
  program.add(program::Copy(x, buffer));
  program.add(program::Copy(buffer, remote));
  const Tensor half = graph.addConstant(FLOAT, {}, 0.5, "half");
  graph.setTileMapping(half, 3);
  // A view that no strides say: a list of places.
  const Tensor mixed = concat(x.slice(0, 4, 0).reverse(1), remote.slice(2, 6, 0), 0);
  const Tensor sum = popops::map(graph,
                                 pe::BinaryOp(pe::BinaryOpType::ADD, pe::UnaryOp(pe::UnaryOpType::TANH, pe::_1),
                                              pe::BinaryOp(pe::BinaryOpType::MULTIPLY, pe::_2, pe::_3)),
                                 {mixed, x, half}, program, "sum");
  const Tensor halves = popops::map(graph, pe::Cast(pe::_1, HALF), {sum}, program, "halves");
  const Tensor product = poplin::matMul(graph, halves, halves.transpose(), program, FLOAT, "product");
  const Tensor rows = popops::reduce(graph, product, FLOAT, {1}, {popops::Operation::ADD}, program, "rows");
  const Tensor some = popops::multiSlice(graph, product, places, {0}, {1}, program, {}, {}, "some");
  const Tensor filled = variable(FLOAT, {8}, "filled"), scaled = variable(FLOAT, {8}, "scaled");
  popops::fill(graph, filled, program, 1.5f, "fill");
  const ComputeSet set = graph.addComputeSet("scale");
  const VertexRef vertex = graph.addVertex(set, "Scaled");
  graph.connect(vertex["in"], rows);
  graph.connect(vertex["out"], scaled);
  graph.setInitialValue(vertex["by"], factor);
  graph.setTileMapping(vertex, 2);
  program::Sequence body;
  body.add(program::Execute(set));
  program.add(program::Repeat(3, body));
  const Tensor all = concat({some.flatten(), filled, scaled}, 0);
  program.add(program::Copy(all, graph.addDeviceToHostFIFO("out", FLOAT, all.numElements())));
  return compileGraph(graph, {program});
}

std::string stored(const Executable& executable) {
  std::ostringstream stream;
  executable.serialize(stream);
  return stream.str();
}

Executable loaded(const std::string& bytes) {
  std::istringstream stream(bytes);
  return Executable::deserialize(stream);
}

struct Results {
  std::vector<float> values;
  uint64_t cycles;
  bool operator==(const Results&) const = default;
};

Results results_of(const Executable& executable) {
  Engine engine(executable);
  engine.load(Device(kMachine));
  std::vector<float> x(128), out(3 * 8 + 16);
  std::iota(x.begin(), x.end(), -40.0f);
  for (float& value : x) value /= 16;
  std::vector<unsigned> places{7, 0, 3};
  engine.connectStream("x", x.data(), x.data() + x.size());
  engine.connectStream("places", places.data(), places.data() + places.size());
  engine.connectStream("out", out.data(), out.data() + out.size());
  engine.run(0);
  return {out, engine.running().cycles};
}

TEST(IpuExecutable, ComesBackWithItsValuesClocksAndMemory) {
  const Executable made = small_program(2);
  const std::string bytes = stored(made);
  const Executable back = loaded(bytes);
  const Results expected = results_of(made);
  EXPECT_EQ(results_of(back), expected);
  EXPECT_NE(expected.values[0], 0);
  EXPECT_GT(expected.cycles, 0u);
  ASSERT_EQ(back.compiled()->tiles.size(), 16u);
  for (size_t tile = 0; tile < 16; ++tile)
    EXPECT_EQ(back.compiled()->tiles[tile].total(), made.compiled()->tiles[tile].total()) << tile;
  EXPECT_EQ(stored(back), bytes);
}

TEST(IpuExecutable, OtherProgramsAreOthers) {
  const Executable two = small_program(2), three = small_program(3);
  EXPECT_EQ(stored(two), stored(small_program(2)));
  EXPECT_NE(stored(two), stored(three));
  const float last_of_two = results_of(loaded(stored(two))).values.back(),
              last_of_three = results_of(loaded(stored(three))).values.back();
  EXPECT_FLOAT_EQ(last_of_three, last_of_two * 1.5f);
}

TEST(IpuExecutable, WhatIsCutOffIsRefused) {
  const std::string bytes = stored(small_program(2));
  for (size_t length = 0; length < bytes.size(); length += 1 + length / 40)
    EXPECT_THROW(loaded(bytes.substr(0, length)), poplar_error) << length;
  EXPECT_THROW(loaded(bytes + "x"), poplar_error);
}

TEST(IpuExecutable, DamagedBytesAreReadOrRefused) {
  const std::string bytes = stored(small_program(2));
  std::mt19937 random(5);
  int refused = 0;
  for (int i = 0; i < 3000; ++i) {
    std::string changed = bytes;
    for (unsigned times = 1 + random() % 3; times > 0; --times)
      changed[random() % changed.size()] ^= static_cast<char>(1 + random() % 255);
    try {
      loaded(changed);
    } catch (const poplar_error&) {
      ++refused;
    }
  }
  EXPECT_GT(refused, 1000);
}

}  // namespace
