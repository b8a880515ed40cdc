// SPDX-License-Identifier: Apache-2.0
// Stochastic rounding of what programs compute in half.
#include <gtest/gtest.h>

#include <cmath>
#include <poplar/CSRFunctions.hpp>
#include <poplar/Engine.hpp>
#include <poplin/MatMul.hpp>
#include <poplin/codelets.hpp>
#include <popops/Cast.hpp>
#include <popops/ElementWise.hpp>
#include <popops/Fill.hpp>
#include <popops/Reduce.hpp>
#include <popops/codelets.hpp>
#include <poprand/RandomGen.hpp>
#include <poprand/codelets.hpp>
#include <poputil/TileMapping.hpp>

#include "simulator/half.h"

namespace {

using namespace poplar;
namespace pe = popops::expr;

constexpr size_t kCount = 8192;

struct IpuRounding : testing::Test {
  Device device{Target::createIPUTarget(1, 16, "ipu2")};
  Graph graph{device.getTarget()};
  program::Sequence program;

  IpuRounding() {
    popops::addCodelets(graph);
    poplin::addCodelets(graph);
    poprand::addCodelets(graph);
  }
  Tensor variable(Type type, const std::vector<size_t>& shape, const std::string& name) {
    const Tensor made = graph.addVariable(type, shape, name);
    poputil::mapTensorLinearly(graph, made);
    return made;
  }
  Tensor number(Type type, float value) {
    const Tensor made = graph.addConstant(type, {}, value, "number");
    graph.setTileMapping(made, 0);
    return made;
  }
  void round_by(unsigned seed, bool on = true) {
    const unsigned words[] = {seed, 7};
    const Tensor made = graph.addConstant(UNSIGNED_INT, {2}, words, "seed");
    graph.setTileMapping(made, 0);
    poprand::setSeed(graph, made, 0, program, "seed");
    setStochasticRounding(graph, program, on, "rounding");
  }
  std::vector<float> run(const Tensor& out) {
    const Tensor wide = popops::cast(graph, out, FLOAT, program, "wide");
    program.add(program::Copy(wide, graph.addDeviceToHostFIFO("out", FLOAT, out.numElements())));
    Engine engine(graph, {program});
    engine.load(device);
    std::vector<float> values(out.numElements());
    engine.connectStream("out", values.data(), values.data() + values.size());
    engine.run(0);
    return values;
  }
  // Many times the number, so that each has its own noise.
  Tensor spread(Type type, float value) {
    const Tensor made = variable(type, {kCount}, "spread");
    popops::fill(graph, made, program, value, "fill");
    return made;
  }
};

double mean_of(const std::vector<float>& values) {
  double sum = 0;
  for (const float value : values) sum += value;
  return sum / static_cast<double>(values.size());
}

// Within five deviations of the mean of so many roundings, each of which has at most half a step.
void expect_mean(const std::vector<float>& values, double expected, double step) {
  EXPECT_NEAR(mean_of(values), expected, 5 * step / 2 / std::sqrt(static_cast<double>(values.size())));
}

constexpr double kStep = 0x1p-10;  // of half from 1 to 2

TEST_F(IpuRounding, CastsHaveNoBias) {
  round_by(1);
  const float value = 1 + 0.3f * static_cast<float>(kStep);
  const std::vector<float> found = run(popops::cast(graph, spread(FLOAT, value), HALF, program, "cast"));
  size_t up = 0;
  for (const float x : found) {
    EXPECT_TRUE(x == 1 || x == 1 + kStep) << x;
    up += x > 1;
  }
  EXPECT_NEAR(static_cast<double>(up) / kCount, 0.3, 0.03);
  expect_mean(found, value, kStep);
}

TEST_F(IpuRounding, NumbersThatHalfHasStay) {
  round_by(1);
  for (const float x : run(popops::cast(graph, spread(FLOAT, 1.25f), HALF, program, "cast"))) EXPECT_EQ(x, 1.25f);
}

// Nearest rounding never learns what is less than half a step.
TEST_F(IpuRounding, SmallUpdatesAreLearntInTheMean) {
  const float update = 0.1f * static_cast<float>(kStep);
  constexpr int kTimes = 20;
  const auto updated = [&] {
    const Tensor weights = spread(HALF, 1), by = number(FLOAT, update);
    Tensor now = weights;
    for (int i = 0; i < kTimes; ++i)
      now = popops::map(graph, pe::Cast(pe::BinaryOp(pe::BinaryOpType::ADD, pe::Cast(pe::_1, FLOAT), pe::_2), HALF),
                        {now, by}, program, "update");
    return now;
  };
  const Tensor nearest = updated();
  round_by(5);
  const Tensor stochastic = updated();
  const std::vector<float> found = run(concat(nearest, stochastic));
  for (size_t i = 0; i < kCount; ++i) EXPECT_EQ(found[i], 1);
  const std::vector<float> learnt(found.begin() + kCount, found.end());
  expect_mean(learnt, 1 + kTimes * update, kStep * std::sqrt(kTimes));
}

TEST_F(IpuRounding, SumsAndProductsHaveNoBias) {
  round_by(3);
  // Rows of 16 of the products are 16 * 0.1 * 0.3, which half has not.
  const Tensor a = spread(HALF, 0.1f).reshape({kCount / 16, 16}),
               b = spread(HALF, 0.3f).reshape({kCount / 16, 16}).slice(0, 16, 0);
  const Tensor product = poplin::matMul(graph, a, b, program, HALF, "product");
  const Tensor sums = popops::reduce(graph, a, HALF, {1}, {popops::Operation::ADD}, program, "sums");
  const std::vector<float> found = run(concat(product.flatten(), sums));
  const double tenth = ipu_emulator::from_half(ipu_emulator::to_half(0.1f)),
               third = ipu_emulator::from_half(ipu_emulator::to_half(0.3f));
  const std::vector<float> products(found.begin(), found.begin() + kCount), rows(found.begin() + kCount, found.end());
  expect_mean(products, 16 * tenth * third, 0x1p-12);
  expect_mean(rows, 16 * tenth, 0x1p-10);
}

// fp16.16: sums of half between blocks of 16 inputs lose what is small against them; noise keeps it in the mean.
TEST_F(IpuRounding, HalfPartialsAreRounded) {
  // 1 + 1 + ... of 16 inputs is 16, whose step is 1/64; each further block adds a quarter of a step.
  constexpr size_t kBlocks = 65, kRows = 64;
  std::vector<float> row(16 * kBlocks, 0x1p-12f);
  std::fill_n(row.begin(), 16, 1.0f);
  const auto operands = [&] {
    std::vector<float> values;
    for (size_t i = 0; i < kRows; ++i) values.insert(values.end(), row.begin(), row.end());
    const Tensor made = graph.addConstant(FLOAT, {kRows, row.size()}, values.data(), "a");
    poputil::mapTensorLinearly(graph, made);
    return popops::cast(graph, made, HALF, program, "half");
  };
  const Tensor a = operands(), ones = variable(HALF, {row.size(), kRows}, "ones");
  popops::fill(graph, ones, program, 1.0f, "fill");
  const OptionFlags half{{"partialsType", "half"}};
  const Tensor wide = poplin::matMul(graph, a, ones, program, FLOAT, "wide"),
               nearest = poplin::matMul(graph, a, ones, program, FLOAT, "nearest", half);
  round_by(9);
  const Tensor stochastic = poplin::matMul(graph, a, ones, program, FLOAT, "stochastic", half);
  const std::vector<float> found = run(concat({wide.flatten(), nearest.flatten(), stochastic.flatten()}));
  const size_t size = kRows * kRows;
  for (size_t i = 0; i < size; ++i) {
    EXPECT_EQ(found[i], 16.25f);
    EXPECT_EQ(found[size + i], 16.0f);
  }
  expect_mean({found.begin() + 2 * size, found.end()}, 16.25, 0x1p-6 * std::sqrt(kBlocks));
}

TEST_F(IpuRounding, IsThatOfItsSeed) {
  const Tensor values = spread(FLOAT, 1 + 0.5f * static_cast<float>(kStep));
  const auto rounded = [&](unsigned seed, bool on = true) {
    round_by(seed, on);
    return popops::cast(graph, values, HALF, program, "cast");
  };
  const Tensor first = rounded(1), again = rounded(1), other = rounded(2),
               later = popops::cast(graph, values, HALF, program, "later"), off = rounded(1, false);
  const std::vector<float> found = run(concat({first, again, other, later, off}));
  const auto part = [&](size_t i) {
    return std::vector<float>(found.begin() + static_cast<ptrdiff_t>(i * kCount),
                              found.begin() + static_cast<ptrdiff_t>((i + 1) * kCount));
  };
  EXPECT_EQ(part(0), part(1));
  EXPECT_NE(part(0), part(2));
  EXPECT_NE(part(2), part(3));
  EXPECT_EQ(part(4), std::vector<float>(kCount, 1));  // to nearest, ties to even
}

TEST_F(IpuRounding, WhatIsNotEmulatedIsRefused) {
  EXPECT_THROW(setFloatingPointBehaviour(graph, program, FloatingPointBehaviour()), graph_error);
  EXPECT_NO_THROW(setFloatingPointBehaviour(graph, program, {false, false, false, true, false}));
  EXPECT_THROW(poprand::setSeed(graph, variable(FLOAT, {2}, "seed"), 0, program), graph_error);
}

}  // namespace
