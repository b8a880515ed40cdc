// SPDX-License-Identifier: Apache-2.0
// Inputs stay on the tiles from run to run, and come again when somebody wrote to their buffer or another program was
// there meanwhile.
#include <gtest/gtest.h>

#include <cstdlib>
#include <thread>

#include "testing/files.h"
#include "transom/compile.h"
#include "transom/device.h"
#include "transom/error.h"
#include "transom/ops.h"

namespace transom {
namespace {

class IpuResident : public testing::Test {
 protected:
  void SetUp() override {
    ::setenv("TRANSOM_EMULATED_IPU", "bow:4", 0);
    try {
      set_device("ipu");
    } catch (const Error& error) {
      GTEST_SKIP() << error.what();
    }
  }
  static int64_t fetched() { return test::Json::parse(device_report()).at("fetched_bytes"); }
  static Tensor filled(float value) { return Tensor::from(std::vector<float>(256, value), {256}); }
};

TEST_F(IpuResident, WeightsComeOnce) {
  const CompiledFunction twice = compile([](const std::vector<Tensor>& x) { return std::vector{x[0] * x[1]}; }, {});
  const Tensor weight = filled(3);
  EXPECT_EQ(twice({weight, filled(2)})[0].to_vector<float>()[7], 6);
  const int64_t before = fetched();
  EXPECT_EQ(twice({weight, filled(5)})[0].to_vector<float>()[7], 15);
  EXPECT_EQ(fetched() - before, 1024);  // the other input alone
}

TEST_F(IpuResident, OtherContentsOfABufferAreSeen) {
  const CompiledFunction twice = compile([](const std::vector<Tensor>& x) { return std::vector{x[0] + x[0]}; }, {});
  // Buffers are used again where they were freed: each value is a new content, wherever it lies.
  for (int i = 0; i < 20; ++i) {
    const Tensor value = filled(static_cast<float>(i));
    EXPECT_EQ(twice({value})[0].to_vector<float>()[100], static_cast<float>(2 * i));
  }
}

TEST_F(IpuResident, AResultThatIsReadByTheNextRunIsNew) {
  const CompiledFunction next = compile([](const std::vector<Tensor>& x) { return std::vector{x[0] + 1.0}; },
                                        {.name = "next", .capture = false, .donated = {0}});
  Tensor value = filled(0);
  for (int i = 0; i < 5; ++i) value = next({value})[0];
  EXPECT_EQ(value.to_vector<float>()[0], 5);
}

TEST_F(IpuResident, ProgramsInTurnsFindWhatIsTheirs) {
  const CompiledFunction product = compile([](const std::vector<Tensor>& x) { return std::vector{x[0] * x[1]}; }, {});
  const CompiledFunction sum = compile([](const std::vector<Tensor>& x) { return std::vector{x[0] + x[1]}; }, {});
  const Tensor a = filled(3), b = filled(4);
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(product({a, b})[0].to_vector<float>()[1], 12);
    EXPECT_EQ(sum({a, b})[0].to_vector<float>()[1], 7);
  }
}

TEST_F(IpuResident, TwoThreadsWithOneProgramGetTheirOwn) {
  const CompiledFunction product = compile([](const std::vector<Tensor>& x) { return std::vector{x[0] * x[1]}; }, {});
  const Tensor weight = filled(2);
  const auto ask = [&](float first, int& wrong) {
    for (int i = 0; i < 50; ++i) {
      const float value = first + static_cast<float>(i);
      for (const float got : product({weight, filled(value)})[0].to_vector<float>()) wrong += got != 2 * value;
    }
  };
  int wrong_here = 0, wrong_there = 0;
  std::thread other([&] { ask(1000, wrong_there); });
  ask(0, wrong_here);
  other.join();
  EXPECT_EQ(wrong_here, 0);
  EXPECT_EQ(wrong_there, 0);
}

}  // namespace
}  // namespace transom
