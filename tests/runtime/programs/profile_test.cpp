// SPDX-License-Identifier: Apache-2.0
#include "runtime/programs/profile.h"

#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <thread>

#include "base/json/json.h"
#include "support/message.h"
#include "support/temporary_folder.h"
#include "transom/ops.h"

namespace transom {
namespace {

using test::message_of;

Tensor product(float value) {
  const Tensor x = Tensor::from(std::vector<float>(6, value), {2, 3});
  const Tensor w = Tensor::from(std::vector<float>(12, 1), {4, 3});
  return linear(x, w, Tensor::from(std::vector<float>(4, 0), {4}));
}

TEST(Profile, CountsCallsBytesAndArithmetic) {
  Profile profile;
  for (int i = 0; i < 3; ++i) EXPECT_EQ(product(1).to_vector<float>()[0], 3);
  const std::vector<Profile::Kernel> kernels = profile.kernels();
  const auto one = std::find_if(kernels.begin(), kernels.end(),
                                [](const auto& k) { return k.operation == "linear" || k.operation == "dot_general"; });
  ASSERT_NE(one, kernels.end());
  EXPECT_EQ(one->calls, 3u);
  EXPECT_EQ(one->arithmetic, 3 * 2.0 * 2 * 3 * 4);
  EXPECT_GE(one->bytes, 3 * 4.0 * (6 + 12 + 8));
  EXPECT_FALSE(one->kernel.empty());
  EXPECT_NE(one->types.find("-> f32[2, 4]"), std::string::npos) << one->types;
  const Profile::Summary summary = profile.summary();
  EXPECT_EQ(summary.runs, 3u);
  EXPECT_LE(summary.kernel_seconds, summary.run_seconds);
  EXPECT_LE(summary.run_seconds, summary.seconds);
}

TEST(Profile, NothingIsCountedOnceItIsRead) {
  Profile profile;
  product(1).to_vector<float>();
  EXPECT_EQ(profile.summary().runs, 1u);
  product(1).to_vector<float>();
  EXPECT_EQ(profile.summary().runs, 1u);
  Profile next;
  product(1).to_vector<float>();
  EXPECT_EQ(next.summary().runs, 1u);
}

TEST(Profile, MayEndWhileAnotherThreadComputes) {
  std::atomic<bool> stop{false};
  std::thread other([&] {
    for (int64_t rows = 1; !stop; rows = rows % 50 + 1)  // some are compiled, some have been
      (Tensor::from(std::vector<float>(static_cast<size_t>(rows * 4), 1), {rows, 4}) * 2.0 + 1.0).to_vector<float>();
  });
  uint64_t runs = 0;
  for (int i = 0; i < 100; ++i) {
    auto profile = std::make_unique<Profile>();
    product(1).to_vector<float>();
    runs += profile->summary().runs;
  }
  stop = true;
  other.join();
  EXPECT_GE(runs, 100u);
}

TEST(Profile, ThereIsOneAtATime) {
  const Profile profile;
  EXPECT_NE(message_of([] { const Profile second; }).find("already"), std::string::npos);
}

TEST(Profile, WritesATraceOfProgramsAndKernels) {
  const test::TemporaryFolder folder;
  Profile profile;
  product(1).to_vector<float>();
  profile.write_trace(folder / "trace.json");
  const Json trace = parse_json(read_file(folder / "trace.json"), "trace.json");
  size_t programs = 0, kernels = 0;
  double program_begin = 0, program_end = 0;
  for (const Json& event : trace.at("traceEvents")) {
    if (event.at("ph") != "X") continue;
    const double begin = event.at("ts").get<double>(), end = begin + event.at("dur").get<double>();
    if (event.at("cat") == "kernel") {
      ++kernels;
      EXPECT_TRUE(event.at("args").at("kernel").is_string() && event.at("args").at("types").is_string());
      EXPECT_GE(begin, program_begin);
      EXPECT_LE(end, program_end);
    } else if (event.at("name") != "compile") {
      ++programs;
      program_begin = begin, program_end = end;
    }
  }
  EXPECT_EQ(programs, 1u);
  EXPECT_GE(kernels, 1u);
}

}  // namespace
}  // namespace transom
