// SPDX-License-Identifier: Apache-2.0
// Products of a dense matrix with the blocks of a sparse one.
#include <gtest/gtest.h>

#include <poplar/Engine.hpp>
#include <poplin/MatMul.hpp>
#include <poplin/codelets.hpp>
#include <popops/Cast.hpp>
#include <popops/codelets.hpp>
#include <popsparse/codelets.hpp>
#include <popsparse/experimental/BlockSparseMatMul.hpp>
#include <poputil/TileMapping.hpp>
#include <random>
#include <sstream>

#include "simulator/compile.h"

namespace {

using namespace poplar;
namespace ps = popsparse::experimental;

constexpr size_t kRows = 20, kInner = 64, kColumns = 96, kBlock = 16;

struct IpuBlockSparse : testing::Test {
  Device device{Target::createIPUTarget(1, 64, "ipu2")};
  Graph graph{device.getTarget()};
  program::Sequence program;
  std::mt19937 random{3};

  IpuBlockSparse() {
    popops::addCodelets(graph);
    poplin::addCodelets(graph);
    popsparse::addCodelets(graph);
  }
  std::vector<float> numbers(size_t count) {
    std::vector<float> values(count);
    for (float& value : values) value = static_cast<float>(random() % 2001) / 1000 - 1;
    return values;
  }
  Tensor constant(const std::vector<float>& values, const std::vector<size_t>& shape, Type type) {
    const Tensor made = graph.addConstant(FLOAT, shape, values.data(), "values");
    poputil::mapTensorLinearly(graph, made);
    return type == FLOAT ? made : popops::cast(graph, made, type, program, "cast");
  }
  // Products of one dense matrix with a matrix of blocks: the dense one, and that of the blocks.
  std::pair<std::vector<float>, std::vector<float>> products(Type type, unsigned kept_of_ten, bool transposed) {
    const size_t down = (transposed ? kColumns : kInner) / kBlock, across = (transposed ? kInner : kColumns) / kBlock;
    std::vector<unsigned char> mask(down * across);
    std::vector<float> dense = numbers(kInner * kColumns), blocks;
    for (size_t block = 0; block < mask.size(); ++block) {
      mask[block] = random() % 10 < kept_of_ten;
      for (size_t row = 0; row < kBlock; ++row)
        for (size_t column = 0; column < kBlock; ++column) {
          float& value = dense[(block / across * kBlock + row) * across * kBlock + block % across * kBlock + column];
          if (mask[block]) blocks.push_back(value);
          else value = 0;
        }
    }
    const Tensor left = constant(numbers(kRows * kInner), {kRows, kInner}, type),
                 whole = constant(dense, {down * kBlock, across * kBlock}, type),
                 right = constant(blocks, {blocks.size() / kBlock / kBlock, kBlock * kBlock}, type);
    const ps::BSMatMulParams params({kRows, kInner, kColumns}, {4, kBlock, kBlock}, mask, transposed, type, FLOAT,
                                    FLOAT);
    const Tensor expected =
                     poplin::matMul(graph, left, transposed ? whole.transpose() : whole, program, FLOAT, "dense"),
                 found = ps::bsMatMul(graph, params, program, left, right, {}, "blocks");
    const Tensor all = concat(expected, found);
    program.add(program::Copy(all, graph.addDeviceToHostFIFO("out", FLOAT, all.numElements())));
    // As it comes back from a file, too.
    std::stringstream stream;
    compileGraph(graph, {program}).serialize(stream);
    Engine engine(Executable::deserialize(stream));
    engine.load(device);
    std::vector<float> values(all.numElements());
    engine.connectStream("out", values.data(), values.data() + values.size());
    engine.run(0);
    const auto middle = values.begin() + kRows * kColumns;
    return {{values.begin(), middle}, {middle, values.end()}};
  }
};

TEST_F(IpuBlockSparse, GiveTheBitsOfTheDenseProduct) {
  const auto [dense, blocks] = products(FLOAT, 3, false);
  EXPECT_EQ(dense, blocks);
  EXPECT_NE(dense, std::vector<float>(dense.size(), 0));
}
TEST_F(IpuBlockSparse, GiveTheBitsOfTheDenseProductOfATransposedMatrix) {
  const auto [dense, blocks] = products(HALF, 3, true);
  EXPECT_EQ(dense, blocks);
  EXPECT_NE(dense, std::vector<float>(dense.size(), 0));
}
TEST_F(IpuBlockSparse, AllBlocksAreTheDenseProduct) {
  const auto [dense, blocks] = products(HALF, 10, false);
  EXPECT_EQ(dense, blocks);
}

// A layer of BERT on one Bow, with a part of its blocks.
TEST(IpuBlockSparseClocks, FewerBlocksTakeFewerCyclesAndBytes) {
  struct Cost {
    uint64_t cycles, bytes;
  };
  const Target target = Target::createIPUTarget(1, "bow");
  const auto cost_of = [&](size_t kept_of_eight) {
    Graph graph(target);
    popops::addCodelets(graph);
    poplin::addCodelets(graph);
    popsparse::addCodelets(graph);
    program::Sequence program;
    const auto input = [&](const std::vector<size_t>& shape, const std::string& name) {
      const Tensor made = graph.addVariable(HALF, shape, name);
      poputil::mapTensorLinearly(graph, made);
      program.add(program::Copy(graph.addHostToDeviceFIFO(name, HALF, made.numElements()), made));
      return made;
    };
    constexpr size_t kHidden = 768, kWide = 3072, kTokens = 384;
    const Tensor x = input({kTokens, kHidden}, "x");
    Tensor out;
    if (kept_of_eight) {
      std::vector<unsigned char> mask(kHidden / 16 * (kWide / 16));
      size_t kept = 0;
      for (size_t i = 0; i < mask.size(); ++i) kept += mask[i] = (i * 5 + i / 48) % 8 < kept_of_eight;
      const ps::BSMatMulParams params({kTokens, kHidden, kWide}, {16, 16, 16}, mask, true, HALF, HALF, FLOAT);
      out = ps::bsMatMul(graph, params, program, x, input({kept, 256}, "w"), {}, "product");
    } else {
      out = poplin::matMul(graph, x, input({kWide, kHidden}, "w").transpose(), program, HALF, "product");
    }
    program.add(program::Copy(out, graph.addDeviceToHostFIFO("out", HALF, out.numElements())));
    const auto compiled = compileGraph(graph, {program}).compiled();
    Cost cost{0, 0};
    for (const auto& phase : compiled->programs[0])
      if (phase.name.starts_with("product")) cost.cycles += phase.compute + phase.exchange + phase.sync;
    for (const auto& tile : compiled->tiles) cost.bytes = std::max(cost.bytes, tile.total());
    return cost;
  };
  const Cost dense = cost_of(0), half = cost_of(4), quarter = cost_of(2), eighth = cost_of(1);
  EXPECT_LT(half.cycles, dense.cycles);
  EXPECT_LT(quarter.cycles, half.cycles);
  EXPECT_LT(eighth.cycles, quarter.cycles);
  EXPECT_LT(half.bytes, dense.bytes);
  EXPECT_LT(quarter.bytes, half.bytes);
}

TEST_F(IpuBlockSparse, OtherBlocksAndShapesAreRefused) {
  const std::vector<unsigned char> mask(4, 1);
  const auto made = [&](std::array<int, 3> dim, std::array<int, 3> block, Type type) {
    ps::BSMatMulParams(dim, block, mask, false, type, FLOAT, FLOAT);
  };
  EXPECT_NO_THROW(made({16, 32, 32}, {16, 16, 16}, HALF));
  EXPECT_THROW(made({16, 32, 32}, {16, 8, 8}, HALF), graph_error);
  EXPECT_THROW(made({16, 40, 32}, {16, 16, 16}, HALF), graph_error);
  EXPECT_THROW(made({16, 64, 32}, {16, 16, 16}, HALF), graph_error);  // eight blocks
  EXPECT_THROW(made({16, 32, 32}, {16, 16, 16}, INT), graph_error);
  const ps::BSMatMulParams params({16, 32, 32}, {16, 16, 16}, mask, false, HALF, FLOAT, FLOAT);
  const Tensor left = ps::createBSMatMulInputLHS(graph, params, "left");
  EXPECT_THROW(ps::bsMatMul(graph, params, program, left, left), graph_error);
}

}  // namespace
