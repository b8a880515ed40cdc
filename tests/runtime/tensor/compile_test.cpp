// SPDX-License-Identifier: Apache-2.0
// Compiled and captured functions give the bits of the plain function, trace once a signature, and never change a value
// under its holder.
#include "transom/compile.h"

#include <gtest/gtest.h>

#include "transom/caches.h"
#include "transom/device.h"
#include "transom/error.h"
#include "transom/gradients.h"
#include "transom/ops.h"

namespace transom {
namespace {

using Floats = std::vector<float>;

struct Case {
  const char* device;
  bool capture;
};

class Compiled : public testing::TestWithParam<Case> {
 protected:
  void SetUp() override { set_device(GetParam().device); }
  void TearDown() override { set_mode(Mode::kLazy); }
  CompiledFunction compiled(TensorFunction function, std::vector<size_t> donated = {}) const {
    return compile(std::move(function), {.name = "test", .capture = GetParam().capture, .donated = std::move(donated)});
  }
};

std::vector<Tensor> softmax_rows(const std::vector<Tensor>& x) { return {softmax(x[0] * 3.0), mean(x[0], {-1})}; }

TEST_P(Compiled, GivesTheBitsOfTheFunction) {
  const CompiledFunction function = compiled(softmax_rows);
  for (const float first : {1.F, -2.F, 7.5F}) {
    const Tensor x = Tensor::from(Floats{first, 2, 3, 4, 5, 6}, {2, 3});
    const auto expected = softmax_rows({x});
    const auto got = function({x});
    ASSERT_EQ(got.size(), 2u);
    for (size_t i = 0; i < 2; ++i) EXPECT_EQ(got[i].to_bytes(), expected[i].to_bytes());
  }
  EXPECT_EQ(function.traces(), 1u);
}

TEST_P(Compiled, TracesOnceForEachSignature) {
  int calls = 0;
  const CompiledFunction function = compiled([&calls](const std::vector<Tensor>& x) -> std::vector<Tensor> {
    ++calls;
    return {x[0] + x[0]};
  });
  for (int round = 0; round < 3; ++round)
    for (const int64_t length : {2, 5}) EXPECT_EQ(function({full({length}, 2)})[0].to_vector<float>()[1], 4);
  EXPECT_EQ(function({full({2}, 2, DType::kInt64)})[0].dtype(), DType::kInt64);
  EXPECT_EQ(calls, 3);
  EXPECT_EQ(function.traces(), 3u);
}

TEST_P(Compiled, TracesInEagerModeToo) {
  set_mode(Mode::kEager);
  const CompiledFunction function = compiled(softmax_rows);
  EXPECT_FLOAT_EQ(function({Tensor::from(Floats{0, 0}, {1, 2})})[0].to_vector<float>()[0], 0.5F);
}

TEST_P(Compiled, TakesGradientsInside) {
  Tensor w = Tensor::from(Floats{2, 3}, {2});
  w.set_requires_grad();
  const CompiledFunction function =
      compiled([w](const std::vector<Tensor>& x) { return gradients(sum(x[0] * w * w), {w}); });
  EXPECT_EQ(function({Tensor::from(Floats{1, 10}, {2})})[0].to_vector<float>(), (Floats{4, 60}));
  EXPECT_EQ(function({Tensor::from(Floats{2, 1}, {2})})[0].to_vector<float>(), (Floats{8, 6}));
}

TEST_P(Compiled, LeavesHeldResultsAlone) {
  const CompiledFunction function =
      compiled([](const std::vector<Tensor>& x) -> std::vector<Tensor> { return {x[0] * 2.0}; });
  const Tensor first = function({full({3}, 1)})[0];
  const Tensor second = function({full({3}, 5)})[0];
  const Tensor third = function({full({3}, 7)})[0];
  EXPECT_EQ(first.to_vector<float>(), Floats(3, 2));
  EXPECT_EQ(second.to_vector<float>(), Floats(3, 10));
  EXPECT_EQ(third.to_vector<float>(), Floats(3, 14));
}

TEST_P(Compiled, CountsUpInDonatedMemory) {
  const CompiledFunction function =
      compiled([](const std::vector<Tensor>& x) -> std::vector<Tensor> { return {x[0] + x[1]}; }, {0});
  Tensor total = full({4}, 0);
  for (int i = 0; i < 5; ++i) {
    std::vector<Tensor> arguments{std::move(total), full({4}, i)};
    total = function(std::move(arguments))[0];
  }
  EXPECT_EQ(total.to_vector<float>(), Floats(4, 10));
  // Somebody holds the argument: it is copied, not overwritten.
  const Tensor kept = total;
  EXPECT_EQ(function({total, full({4}, 1)})[0].to_vector<float>(), Floats(4, 11));
  EXPECT_EQ(kept.to_vector<float>(), Floats(4, 10));
}

TEST_P(Compiled, HandsAnArgumentThrough) {
  const CompiledFunction function = compiled([](const std::vector<Tensor>& x) -> std::vector<Tensor> {
    return {x[0], x[0] + 1.0, x[0]};
  });
  const auto results = function({full({2}, 3)});
  EXPECT_EQ(results[0].to_vector<float>(), Floats(2, 3));
  EXPECT_EQ(results[1].to_vector<float>(), Floats(2, 4));
  EXPECT_EQ(results[2].to_vector<float>(), Floats(2, 3));
}

TEST_P(Compiled, AFailedTraceLeavesNothingBehind) {
  const CompiledFunction function =
      compiled([](const std::vector<Tensor>& x) -> std::vector<Tensor> { return {matmul(x[0], x[0])}; });
  EXPECT_THROW(function({full({2, 3}, 1)}), Error);
  EXPECT_EQ(function.traces(), 0u);
  EXPECT_EQ(function({full({2, 2}, 1)})[0].to_vector<float>(), Floats(4, 2));
}

TEST_P(Compiled, ForgetsItsTracesAndProgramsThatNobodyElseHas) {
  const CompiledFunction first = compiled(softmax_rows), second = compiled(softmax_rows);
  const Tensor x = full({2, 7}, 1), y = full({3, 11}, 1);
  eval({x, y});
  const CacheStatistics before = cache_statistics();
  first({x}), second({x}), first({y});
  EXPECT_EQ(cache_statistics().traces.entries, before.traces.entries + 3);
  const size_t programs = cache_statistics().programs.entries;
  first.forget();
  EXPECT_EQ(cache_statistics().traces.entries, before.traces.entries + 1);
  EXPECT_EQ(cache_statistics().programs.entries, programs - 1);  // that of y; the other is also the second's
  EXPECT_EQ(first({y})[0].to_vector<float>(), softmax_rows({y})[0].to_vector<float>());
  EXPECT_EQ(first.traces(), 3u);
}

INSTANTIATE_TEST_SUITE_P(Devices, Compiled,
                         testing::Values(Case{"reference", false}, Case{"reference", true}, Case{"cpu", false},
                                         Case{"cpu", true}),
                         [](const auto& info) {
                           return std::string(info.param.device) + (info.param.capture ? "Captured" : "");
                         });

}  // namespace
}  // namespace transom
