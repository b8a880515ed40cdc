// SPDX-License-Identifier: Apache-2.0
// Several threads compute at once, with tensors of their own and shared ones.
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <functional>
#include <thread>

#include "graph/ir/node.h"
#include "runtime/tensor/mode_scope.h"
#include "transom/caches.h"
#include "transom/compile.h"
#include "transom/device.h"
#include "transom/ops.h"

namespace transom {
namespace {

using Floats = std::vector<float>;

class Threads : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override { set_device(GetParam()); }
  void TearDown() override { set_mode(Mode::kLazy); }

  // Does body(thread, round) on four threads that start each round together.
  static void on_four(int rounds, const std::function<void(int, int)>& body) {
    std::atomic<int> arrived{0};
    std::vector<std::thread> threads;
    for (int t = 0; t < 4; ++t)
      threads.emplace_back([&, t] {
        for (int round = 0; round < rounds; ++round) {
          ++arrived;
          while (arrived < 4 * (round + 1)) std::this_thread::yield();
          body(t, round);
        }
      });
    for (std::thread& thread : threads) thread.join();
  }

  static Tensor numbers(int64_t rows, float first) {
    Floats values(static_cast<size_t>(rows * 8));
    for (size_t i = 0; i < values.size(); ++i) values[i] = first + 0.125F * static_cast<float>(i % 13);
    return Tensor::from(values, {rows, 8});
  }
  static Tensor some_layers(const Tensor& x, const Tensor& weight) {
    return softmax(matmul(tanh(matmul(x, weight)), weight));
  }
};

TEST_P(Threads, ProgramsOfManyShapesGiveWhatOneThreadGets) {
  const Tensor weight = numbers(8, -0.5F);
  std::vector<Floats> expected;
  for (int64_t rows = 1; rows <= 24; ++rows)
    expected.push_back(some_layers(numbers(rows, 0.25F), weight).to_vector<float>());
  std::atomic<int> wrong{0};
  on_four(48, [&](int thread, int round) {
    const int64_t rows = 1 + (round * 5 + thread * 7) % 24;
    const Floats got = some_layers(numbers(rows, 0.25F), weight).to_vector<float>();
    wrong += got != expected[static_cast<size_t>(rows - 1)];
  });
  EXPECT_EQ(wrong, 0);
}

TEST_P(Threads, OneLazyTensorIsComputedForAllWhoReadIt) {
  std::atomic<int> wrong{0}, made{0}, done{0};
  Tensor shared;
  on_four(40, [&](int thread, int round) {
    const auto value = static_cast<float>(round);
    if (thread == 0) {
      shared = numbers(3, value) * 2.0;
      made = round + 1;
    }
    while (made <= round) std::this_thread::yield();
    const Tensor mine = shared;
    const Tensor further = thread % 2 ? mine + 1.0 : mine;
    Floats expected(24);
    for (size_t i = 0; i < 24; ++i)
      expected[i] = 2 * (value + 0.125F * static_cast<float>(i % 13)) + (thread % 2 ? 1.F : 0.F);
    wrong += further.to_vector<float>() != expected;
    ++done;
    while (done < 4 * (round + 1)) std::this_thread::yield();
  });
  EXPECT_EQ(wrong, 0);
}

// Each thread updates a tensor of its own over and over, in place, from a leaf that all share.
TEST_P(Threads, WhatAnotherThreadHoldsIsNotDonated) {
  const Tensor shared = numbers(4, 1) + 0.0;
  const Floats before = shared.to_vector<float>();
  std::atomic<int> wrong{0};
  on_four(1, [&](int thread, int) {
    Tensor mine = shared;
    for (int i = 0; i < 100; ++i) {
      mine = mine + static_cast<double>(thread + 1);
      eval({mine});
    }
    const Floats got = mine.to_vector<float>();
    for (size_t i = 0; i < got.size(); ++i) wrong += got[i] != before[i] + 100.F * static_cast<float>(thread + 1);
  });
  EXPECT_EQ(wrong, 0);
  EXPECT_EQ(shared.to_vector<float>(), before);
}

TEST_P(Threads, ShareCompiledFunctions) {
  const Tensor weight = numbers(8, -0.5F);
  for (const bool capture : {false, true}) {
    std::atomic<int> calls{0}, wrong{0};
    const CompiledFunction function = compile(
        [&](const std::vector<Tensor>& x) -> std::vector<Tensor> {
          ++calls;
          return {some_layers(x[0], weight)};
        },
        {.name = "shared", .capture = capture, .donated = {}});
    on_four(40, [&](int thread, int round) {
      const int64_t rows = 1 + (round + thread / 2) % 6;
      const auto first = static_cast<float>(thread);
      const Floats got = function({numbers(rows, first)})[0].to_vector<float>();
      wrong += got != some_layers(numbers(rows, first), weight).to_vector<float>();
    });
    EXPECT_EQ(wrong, 0) << capture;
    EXPECT_EQ(calls, 6) << capture;  // once for each signature, whoever came first
  }
}

// Caches that keep one entry each: what one thread runs is what another throws out.
TEST_P(Threads, UseProgramsWhileTheCachesLetGoOfThem) {
  const CacheStatistics before = cache_statistics();
  set_cache_limit(1);
  const Tensor weight = numbers(8, -0.5F);
  const CompiledFunction function =
      compile([&](const std::vector<Tensor>& x) -> std::vector<Tensor> { return {some_layers(x[0], weight)}; },
              {.name = "evicted", .capture = true, .donated = {}});
  std::atomic<int> wrong{0};
  on_four(20, [&](int thread, int round) {
    const Tensor x = numbers(1 + (round + thread) % 7, 0.5F);
    wrong += function({x})[0].to_vector<float>() != some_layers(x, weight).to_vector<float>();
  });
  const CacheStatistics after = cache_statistics();
  set_cache_limit(before.programs.limit);
  EXPECT_EQ(wrong, 0);
  EXPECT_EQ(after.programs.entries, 1u);
  EXPECT_EQ(after.traces.entries, 1u);
  EXPECT_GT(after.programs.evictions, before.programs.evictions);
  EXPECT_GT(after.traces.evictions, before.traces.evictions);
}

TEST_P(Threads, HaveModesOfTheirOwn) {
  std::atomic<int> wrong{0};
  on_four(20, [&](int thread, int) {
    const Mode mine = std::array{Mode::kLazy, Mode::kEager, Mode::kCompile, Mode::kGraph}[static_cast<size_t>(thread)];
    const ModeScope scope(mine);
    const Tensor x = numbers(2, 1) + 1.0;
    wrong += mode() != mine;
    wrong += x.node()->computed(0) != (mine == Mode::kEager);
  });
  EXPECT_EQ(wrong, 0);
  EXPECT_EQ(mode(), Mode::kLazy);
}

INSTANTIATE_TEST_SUITE_P(Devices, Threads, testing::Values("cpu", "reference"),
                         [](const auto& device) { return std::string(device.param); });

}  // namespace
}  // namespace transom
