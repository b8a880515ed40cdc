// SPDX-License-Identifier: Apache-2.0
// What is the device's own: 64-bit integers in 32, memory that is given away, capture, host work between recipes.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "hpu_device.h"
#include "testing/message.h"
#include "transom/compile.h"

namespace transom {
namespace {

class HpuDevice : public testing::Test {
 protected:
  void SetUp() override { test::require_hpu(); }
};

TEST_F(HpuDevice, DescribesItself) {
  for (const DeviceInfo& info : list_devices()) {
    if (info.name != device_name()) continue;
    EXPECT_TRUE(info.description.starts_with("Intel Gaudi")) << info.description;
    EXPECT_GT(info.memory_bytes, uint64_t{30} << 30);
  }
}

TEST_F(HpuDevice, RefusesIntegersThat32BitsCannotCarry) {
  const int64_t large = int64_t{1} << 40;
  const Tensor x = Tensor::from(std::vector<int64_t>{1, -2, large}, {3});
  EXPECT_EQ(x.to_vector<int64_t>(), (std::vector<int64_t>{1, -2, large}));  // carried whole while nobody computes
  const std::string text = test::message_of([&] { (x + x).to_vector<int64_t>(); });
  EXPECT_NE(text.find("element 2 is 1099511627776"), std::string::npos) << text;
  EXPECT_NE(text.find("PT_ENABLE_INT64_SUPPORT"), std::string::npos) << text;
  const Tensor small = Tensor::from(std::vector<int64_t>{-5, INT32_MAX, INT32_MIN + 1}, {3});
  EXPECT_EQ((-small).to_vector<int64_t>(), (std::vector<int64_t>{5, -INT32_MAX, INT32_MAX}));
}

TEST_F(HpuDevice, GivesTheSignOfNegativeZeroAsZero) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const std::vector<float> signs = sign(Tensor::from(std::vector<float>{-0.0f, 0, -3, 5, nan}, {5})).to_vector<float>();
  EXPECT_EQ(std::vector<float>(signs.begin(), signs.end() - 1), (std::vector<float>{0, 0, -1, 1}));
  EXPECT_FALSE(std::signbit(signs[0]));
  EXPECT_TRUE(std::isnan(signs[4]));
}

TEST_F(HpuDevice, DrawsTheWordsOfPhiloxFromAKeyOf64Bits) {
  const int64_t seed = 0x123456789ABCDEF, offset = int64_t{7} << 33;
  const auto words = [&] {
    return random_bits(Tensor::from(std::vector<int64_t>{seed, offset}, {2}), {3, 7}).to_vector<int64_t>();
  };
  const std::vector<int64_t> found = words();
  set_device("reference");
  EXPECT_EQ(found, words());
}

// The host's work stands between two recipes, and what the first makes goes through it to the second.
TEST_F(HpuDevice, SortsOnTheHostBetweenTwoRecipes) {
  const Tensor x = Tensor::from(std::vector<float>{3, 1, 2}, {3});
  const auto [values, places] = sort(x * 2.0, 0, false);
  EXPECT_EQ((values + 1.0).to_vector<float>(), (std::vector<float>{3, 5, 7}));
  EXPECT_EQ((places * 10.0).to_vector<int64_t>(), (std::vector<int64_t>{10, 20, 0}));
}

// The result takes the argument's memory while a view of the old value is still wanted.
TEST_F(HpuDevice, KeepsWhatIsReadAfterItsMemoryWasGivenAway) {
  const CompiledFunction f(
      [](const std::vector<Tensor>& in) -> std::vector<Tensor> {
        const Tensor next = in[0] + 1.0, view = reshape(in[0], {2, 2});
        return {next, view * 2.0 + sum(next)};
      },
      {.donated = {0}});
  const CompiledFunction g([](const std::vector<Tensor>& in) -> std::vector<Tensor> { return {exp(in[0]) * in[0]}; },
                           {.donated = {0}});
  for (int i = 0; i < 2; ++i) {
    const auto results = f({Tensor::from(std::vector<float>{1, 2, 3, 4}, {4})});
    EXPECT_EQ(results[0].to_vector<float>(), (std::vector<float>{2, 3, 4, 5}));
    EXPECT_EQ(results[1].to_vector<float>(), (std::vector<float>{16, 18, 20, 22}));
    EXPECT_EQ(g({Tensor::from(std::vector<float>{0, 0}, {2})})[0].to_vector<float>(), (std::vector<float>{0, 0}));
  }
}

TEST_F(HpuDevice, ReplaysWhatItCaptured) {
  const TensorFunction function = [](const std::vector<Tensor>& in) -> std::vector<Tensor> {
    const Tensor x = softmax(in[0] * 3.0);
    return {x, sort(x, 1, true).first * 2.0};
  };
  const CompiledFunction captured(function, {.capture = true}), launched(function, {});
  for (const float start : {0.0f, 1.0f, -2.0f}) {
    const auto input = [&] { return Tensor::from(std::vector<float>{start, 1, 2, -start, 0, 5}, {2, 3}); };
    const auto a = captured({input()}), b = launched({input()});
    for (size_t i = 0; i < 2; ++i) EXPECT_EQ(a[i].to_vector<float>(), b[i].to_vector<float>());
  }
}

TEST_F(HpuDevice, CompilesARecipeOnceForEachShape) {
  const CompiledFunction f([](const std::vector<Tensor>& in) -> std::vector<Tensor> { return {tanh(in[0]) * 7.0}; },
                           {});
  const auto run = [&](int64_t n) {
    f({Tensor::from(std::vector<float>(static_cast<size_t>(n), 1), {n})})[0].to_bytes();
  };
  const int64_t before = test::recompilations();
  for (int i = 0; i < 5; ++i) run(11), run(13);
  EXPECT_EQ(test::recompilations() - before, 2);
}

TEST_F(HpuDevice, GivesBackItsMemory) {
  const auto work = [] {
    const Tensor x = Tensor::from(std::vector<float>(1000, 2), {10, 100});
    EXPECT_EQ(sum(x * x).item<float>(), 4000);
  };
  work();  // the first compiles, and its program stays
  const uint64_t before = memory_use().in_use;
  for (int i = 0; i < 3; ++i) work();
  EXPECT_EQ(memory_use().in_use, before);
}

}  // namespace
}  // namespace transom
