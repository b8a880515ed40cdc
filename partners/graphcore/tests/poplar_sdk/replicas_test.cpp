// SPDX-License-Identifier: Apache-2.0
// Collectives between replicas, each a thread here, and what a lost one, or one that has not joined, ends in.
#include "simulator/replicas.h"

#include <gtest/gtest.h>

#include <atomic>
#include <gcl/Collectives.hpp>
#include <numeric>
#include <poputil/TileMapping.hpp>
#include <thread>

#include "simulator/compile.h"
#include "simulator/half.h"

namespace {

using namespace poplar;

constexpr unsigned kReplicas = 3;

struct IpuReplicas : testing::Test {
  const Device device{Target::createIPUTarget(1, 16, "bow")};

  // What the program of each replica gives; `build` makes the result of a tensor of `elements` numbers, which on
  // replica r are value(r, 0), value(r, 1) ...
  template <typename T>
  std::vector<std::vector<T>> on_all(const Type& type, size_t elements,
                                     const std::function<T(unsigned replica, size_t i)>& value,
                                     const std::function<Tensor(Graph&, Tensor, program::Sequence&)>& build) {
    const emulator_common::Meeting meeting = ipu_emulator::open_meeting(20);
    std::vector<std::vector<T>> results(kReplicas);
    std::atomic<int> failures = 0;
    std::vector<std::thread> threads;
    for (unsigned replica = 0; replica < kReplicas; ++replica)
      threads.emplace_back([&, replica] {
        try {
          Graph graph(device.getTarget(), replication_factor(kReplicas));
          const Tensor data = graph.addVariable(type, {elements}, "data");
          poputil::mapTensorLinearly(graph, data);
          program::Sequence program;
          program.add(program::Copy(graph.addHostToDeviceFIFO("in", type, elements), data));
          const Tensor made = build(graph, data, program);
          program.add(program::Copy(made, graph.addDeviceToHostFIFO("out", type, made.numElements())));
          Engine engine(graph, {program});
          ipu_emulator::join(engine, std::make_shared<ipu_emulator::Replicas>(meeting, replica, kReplicas, 20));
          engine.load(device);
          std::vector<T> in(elements);
          for (size_t i = 0; i < elements; ++i) in[i] = value(replica, i);
          results[replica].resize(made.numElements());
          engine.connectStream("in", in.data(), in.data() + in.size());
          engine.connectStream("out", results[replica].data(), results[replica].data() + results[replica].size());
          engine.run(0);
        } catch (const std::exception& error) {
          ADD_FAILURE() << error.what();
          ++failures;
        }
      });
    for (std::thread& thread : threads) thread.join();
    return results;
  }
};

TEST_F(IpuReplicas, SumsAreThoseOfAllAndTheSameBits) {
  const auto results = on_all<float>(
      FLOAT, 101,
      [](unsigned replica, size_t i) { return 0.1f * static_cast<float>(i + 1) + static_cast<float>(replica); },
      [](Graph& graph, Tensor data, program::Sequence& program) {
        gcl::allReduceInPlaceCrossReplica(graph, data, gcl::CollectiveOperator::ADD, program);
        return data;
      });
  for (size_t i = 0; i < 101; ++i) {
    const float own = 0.1f * static_cast<float>(i + 1);
    EXPECT_EQ(results[0][i], own + (own + 1) + (own + 2)) << i;  // in the order of the replicas
  }
  EXPECT_EQ(results[1], results[0]);
  EXPECT_EQ(results[2], results[0]);
}

TEST_F(IpuReplicas, SumsOfHalfAreRoundedOnce) {
  const auto results = on_all<uint16_t>(
      HALF, 1, [](unsigned replica, size_t) { return ipu_emulator::to_half(replica == 0 ? 2048.0f : 1.0f); },
      [](Graph& graph, const Tensor& data, program::Sequence& program) {
        return gcl::allReduceCrossReplica(graph, data, gcl::CollectiveOperator::ADD, program);
      });
  EXPECT_EQ(ipu_emulator::from_half(results[2][0]), 2050.0f);  // 2048 + 1 is 2048 in half
}

TEST_F(IpuReplicas, ScatteredSumsAndGatheredPartsAreTheWhole) {
  const auto results = on_all<int32_t>(
      INT, 12, [](unsigned replica, size_t i) { return static_cast<int32_t>(100 * replica + i); },
      [](Graph& graph, const Tensor& data, program::Sequence& program) {
        const Tensor part = gcl::reduceScatterCrossReplica(graph, data, gcl::CollectiveOperator::ADD, program);
        EXPECT_EQ(part.numElements(), 4u);
        return gcl::allGatherCrossReplica(graph, part, program).flatten();
      });
  for (unsigned replica = 0; replica < kReplicas; ++replica)
    for (size_t i = 0; i < 12; ++i) EXPECT_EQ(results[replica][i], static_cast<int32_t>(300 + 3 * i));
}

TEST_F(IpuReplicas, TheLargestIsThatOfAll) {
  const auto results = on_all<int64_t>(
      LONGLONG, 5, [](unsigned replica, size_t i) { return static_cast<int64_t>(replica == i ? 7 : -9); },
      [](Graph& graph, const Tensor& data, program::Sequence& program) {
        return gcl::allReduceCrossReplica(graph, data, gcl::CollectiveOperator::MAX, program);
      });
  EXPECT_EQ(results[1], (std::vector<int64_t>{7, 7, 7, -9, -9}));
}

TEST_F(IpuReplicas, WhatIsNotOfferedIsRefused) {
  Graph graph(device.getTarget(), replication_factor(kReplicas));
  Tensor flags = graph.addVariable(BOOL, {6}, "flags"), odd = graph.addVariable(FLOAT, {7}, "odd");
  for (const Tensor& tensor : {flags, odd}) poputil::mapTensorLinearly(graph, tensor);
  program::Sequence program;
  EXPECT_THROW(gcl::allReduceInPlaceCrossReplica(graph, flags, gcl::CollectiveOperator::ADD, program), graph_error);
  EXPECT_THROW(gcl::allReduceInPlaceCrossReplica(graph, odd, gcl::CollectiveOperator::SQUARE_ADD, program),
               graph_error);
  EXPECT_THROW(gcl::reduceScatterCrossReplica(graph, odd, gcl::CollectiveOperator::ADD, program), graph_error);
}

TEST_F(IpuReplicas, AnEngineThatHasNotJoinedDoesNotSumAlone) {
  Graph graph(device.getTarget(), replication_factor(kReplicas));
  Tensor data = graph.addVariable(FLOAT, {8}, "data");
  poputil::mapTensorLinearly(graph, data);
  program::Sequence program;
  gcl::allReduceInPlaceCrossReplica(graph, data, gcl::CollectiveOperator::ADD, program);
  Engine engine(graph, {program});
  engine.load(device);
  try {
    engine.run(0);
    FAIL() << "it ran";
  } catch (const poplar_error& error) {
    EXPECT_NE(std::string(error.what()).find("expected 3 replicas that have joined, found 1"), std::string::npos);
  }
}

TEST_F(IpuReplicas, ALostOneEndsTheWaitingOfTheOthers) {
  const emulator_common::Meeting meeting = ipu_emulator::open_meeting(20);
  std::string said;
  std::thread waits([&] {
    try {
      ipu_emulator::Replicas replicas(meeting, 0, 2, 20);
      float number = 1;
      replicas.all_gather(&number, std::vector<float>(2).data(), sizeof number);
    } catch (const unrecoverable_runtime_error& error) {
      said = error.what();
    }
  });
  { const ipu_emulator::Replicas leaves(meeting, 1, 2, 20); }
  waits.join();
  EXPECT_NE(said, "");
}

TEST_F(IpuReplicas, WhatTravelsIsClockedByItsBytes) {
  const auto link = [&](unsigned replicas, size_t elements) {
    Graph graph(device.getTarget(), replication_factor(replicas));
    Tensor data = graph.addVariable(FLOAT, {elements}, "data");
    poputil::mapTensorLinearly(graph, data);
    program::Sequence program;
    gcl::allReduceInPlaceCrossReplica(graph, data, gcl::CollectiveOperator::ADD, program);
    const Executable executable = compileGraph(graph, {program});
    uint64_t cycles = 0;
    for (const auto& phase : executable.compiled()->programs[0]) cycles += phase.link;
    return cycles;
  };
  EXPECT_EQ(link(1, 4096), 0u);
  // 32 GB/s at 1.85 GHz; of 2 replicas each sends all of its data once, of 4 half more.
  EXPECT_NEAR(static_cast<double>(link(2, 1 << 20) - link(2, 1 << 19)), (1 << 21) / 32.0 * 1.85, 2);
  EXPECT_GT(link(4, 1 << 20), link(2, 1 << 20) * 14 / 10);
}

// ---- streaming memory

TEST(IpuRemoteBuffers, KeepTheirRowsAndFreeTheTiles) {
  const Device device{Target::createIPUTarget(1, 16, "bow")};
  const auto always_live = [&](bool remote, std::vector<float>* result) {
    Graph graph(device.getTarget());
    const Tensor state = graph.addVariable(FLOAT, {1600}, "state"), next = graph.addVariable(FLOAT, {1600}, "next");
    for (const Tensor& tensor : {state, next}) poputil::mapTensorLinearly(graph, tensor);
    program::Sequence program, fetch;
    if (remote) program.add(program::Copy(graph.addRemoteBuffer("state", FLOAT, 1600), state));
    else fetch.add(program::Copy(graph.addHostToDeviceFIFO("state", FLOAT, 1600), state));
    program.add(program::Copy(state, next));
    if (remote) program.add(program::Copy(next, graph.addRemoteBuffer("next", FLOAT, 1600)));
    else program.add(program::Copy(next, graph.addDeviceToHostFIFO("next", FLOAT, 1600)));
    Engine engine(graph, {program, fetch});
    if (result) {
      std::vector<float> values(1600);
      std::iota(values.begin(), values.end(), 0.0f);
      engine.load(device);
      engine.copyToRemoteBuffer(values.data(), "state", 0);
      engine.run(0);
      result->resize(1600);
      engine.copyFromRemoteBuffer("next", result->data(), 0);
      EXPECT_THROW(engine.copyToRemoteBuffer(values.data(), "state", 1), stream_connection_error);
      EXPECT_THROW(engine.copyToRemoteBuffer(values.data(), "other", 0), stream_connection_error);
    }
    uint64_t bytes = 0;
    for (const auto& tile : engine.running().compiled->tiles) bytes += tile.always_live;
    return bytes;
  };
  std::vector<float> result;
  EXPECT_EQ(always_live(true, &result), 0u);
  EXPECT_EQ(always_live(false, nullptr), 6400u);
  ASSERT_EQ(result.size(), 1600u);
  EXPECT_EQ(result[1599], 1599);
}

TEST(IpuRemoteBuffers, OtherTypesSizesAndRowsAreRefused) {
  Graph graph(Target::createIPUTarget(1, 16, "bow"));
  const Tensor tensor = graph.addVariable(FLOAT, {10}, "tensor");
  poputil::mapTensorLinearly(graph, tensor);
  EXPECT_THROW(program::Copy(graph.addRemoteBuffer("a", HALF, 10), tensor), graph_error);
  EXPECT_THROW(program::Copy(tensor, graph.addRemoteBuffer("b", FLOAT, 9)), graph_error);
  EXPECT_THROW(program::Copy(tensor, graph.addRemoteBuffer("c", FLOAT, 10, 2)), graph_error);
  EXPECT_THROW(graph.addRemoteBuffer("c", FLOAT, 10), graph_error);
  EXPECT_THROW(graph.addRemoteBuffer("d", FLOAT, 10, 0), graph_error);
}

}  // namespace
