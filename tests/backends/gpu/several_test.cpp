// SPDX-License-Identifier: Apache-2.0
// Several GPUs train as one, over emulated drivers and their look-alike of NCCL, which is RCCL's too: processes that
// each have a device, and threads of one process.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>

#include "backends/gpu/gpu_device.h"
#include "support/ranks.h"
#include "support/temporary_folder.h"

namespace transom {
namespace {

using test::Outcome;
using test::Program;

constexpr int kGpus = 3;

class SeveralGpus : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    backend_test::use_emulated_drivers();
    ::setenv("TRANSOM_EMULATED_GPU_DEVICES", std::to_string(kGpus).c_str(), 1);
    const Outcome devices = Program({"devices"}, folder_).wait();
    if (devices.output.find(GetParam() + (":" + std::to_string(kGpus - 1))) == std::string::npos)
      GTEST_SKIP() << "there is no OpenCL device to emulate GPUs on";
    test::save_model_and_rows(folder_, 20);
  }
  void TearDown() override { ::unsetenv("TRANSOM_EMULATED_GPU_DEVICES"); }
  std::vector<std::string> words(const std::string& output, int batch, const std::vector<std::string>& more) const {
    return test::training_words(folder_, GetParam(), output, batch, more);
  }
  test::TemporaryFolder folder_;
};

TEST_P(SeveralGpus, LearnAsOneWithTheWholeBatch) {
  const std::vector<std::string> three{"--max_steps", "3", "--ddp_backend", "nccl"};
  const Outcome one = test::run_ranks(words("one", 2, {"--max_steps", "3"}), folder_, 1)[0];
  ASSERT_EQ(one.status, 0) << one.error;
  const std::vector<Outcome> two = test::run_ranks(words("two", 1, three), folder_, 2);
  std::string said;
  for (const Outcome& outcome : two) said += outcome.error;
  for (const Outcome& outcome : two) ASSERT_EQ(outcome.status, 0) << said;
  test::expect_same_curve(one.output, two[0].output, 1e-5);
}

// Sums, gathered parts, all_to_all, messages: each device a thread of one process.
TEST_P(SeveralGpus, KeepThePromisesOfCollectives) {
  const fs::path certificate = folder_ / "certificate";
  const Outcome outcome = Program({"certify", "--device", GetParam() + std::string(":0"), "--level", "behaviour",
                                   "--seed", "1", "--output", certificate.string()},
                                  folder_)
                              .wait();
  const Json report = read_json(certificate / "certificate.json");
  size_t checked = 0;
  for (const Json& row : report["rows"]) {
    if (row["subject"] != "collectives") continue;
    EXPECT_EQ(row["verdict"], "pass") << row["note"] << outcome.error;
    ++checked;
  }
  EXPECT_EQ(checked, 1u) << outcome.output;
}

TEST_P(SeveralGpus, SayWhatToInstallWhereTheLibraryIsMissing) {
  const bool is_rocm = GetParam() == std::string("rocm");
  ::setenv(is_rocm ? "TRANSOM_RCCL_LIBRARY" : "TRANSOM_NCCL_LIBRARY", "/nowhere/library.so", 1);
  std::string said;
  for (const Outcome& outcome : test::run_ranks(words("out", 1, {"--max_steps", "1"}), folder_, 2)) {
    EXPECT_EQ(outcome.status, 1);
    said += outcome.error;
  }
  EXPECT_EQ(std::count(said.begin(), said.end(), '\n'), 1) << said;
  EXPECT_NE(said.find(is_rocm ? "install ROCm's package rccl" : "pip install nvidia-nccl-cu13"), std::string::npos)
      << said;
}

TEST_P(SeveralGpus, EndTogetherAndResumeToTheSameBits) {
  if (GetParam() == std::string("rocm")) GTEST_SKIP() << "the library is cuda's under another name";
  test::expect_that_killing_one_ends_all(
      folder_, [&](const std::string& output, const std::vector<std::string>& more) { return words(output, 2, more); });
}

INSTANTIATE_TEST_SUITE_P(Vendors, SeveralGpus, testing::Values("cuda", "rocm"),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace
}  // namespace transom
