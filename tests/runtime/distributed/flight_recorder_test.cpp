// SPDX-License-Identifier: Apache-2.0
// Ranks that do not come to a collective: the others say who is late and in what, and each leaves its last collectives.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <set>
#include <thread>

#include "base/error.h"
#include "graph/ops/movement/collectives.h"
#include "runtime/device/communicator.h"
#include "runtime/distributed/flight_files.h"
#include "runtime/distributed/process_group.h"
#include "support/command.h"
#include "support/folders.h"
#include "support/own_ranks.h"
#include "transom/device.h"
#include "transom/distributed.h"
#include "transom/ops.h"

namespace transom {
namespace {

constexpr double kSeconds = 6;  // that ranks wait

// ---- the launcher's side

class FlightRecorderOfRanks : public testing::Test {
 protected:
  void run(const char* test, int ranks) {
    if (!test::has_library("transom_gloo.so")) GTEST_SKIP() << "built without gloo";
    EXPECT_EQ(test::run_over_gloo(std::string("FlightRanks.DISABLED_") + test, ranks,
                                  "TEST_FLIGHT=" + (folder_ / "flight").string()),
              "");
  }
  void expect_finding(const std::string& text) const {
    const FlightReport report = merge_flight_files(folder_ / "flight");
    ASSERT_FALSE(report.findings.empty());
    EXPECT_EQ(report.findings[0], text);
    const test::CommandOutcome shown =
        test::run_command(test::build_folder() + "/bin/transom trace --merge " + (folder_ / "flight").string());
    EXPECT_EQ(shown.status, 0);
    EXPECT_EQ(shown.output.find(text + "\n"), 0u) << shown.output;
  }
  test::TemporaryFolder folder_;
};

TEST_F(FlightRecorderOfRanks, NamesARankThatSleeps) {
  run("OneSleeps", 3);
  if (IsSkipped()) return;
  expect_finding(
      "collective 4 of ranks 0-2 (all_reduce of 16 bytes of f32): ranks 0,2 waited in it; rank 1 did not come");
  const FlightReport report = merge_flight_files(folder_ / "flight");
  EXPECT_EQ(report.ranks, 3);
  EXPECT_TRUE(report.without_file.empty());
  size_t ended = 0;
  for (const FlightCollective& each : report.collectives) ended += each.group == "0-2" && each.ended();
  EXPECT_EQ(ended, 3u);
}

TEST_F(FlightRecorderOfRanks, KnowsThatARankDied) {
  run("OneDies", 3);
  if (IsSkipped()) return;
  expect_finding(
      "collective 4 of ranks 0-2 (all_reduce of 16 bytes of f32): ranks 0,2 waited in it; nothing is known of "
      "rank 1");
}

// Ranks 0 and 2 wait for rank 1, which waits for rank 3.
TEST_F(FlightRecorderOfRanks, NamesWhomAllWaitForInTheEnd) {
  run("OneOfAGroupSleeps", 4);
  if (IsSkipped()) return;
  const FlightReport report = merge_flight_files(folder_ / "flight");
  EXPECT_EQ(std::set<std::string>(report.findings.begin(), report.findings.end()),
            (std::set<std::string>{
                "collective 1 of ranks 1,3 (all_reduce of 16 bytes of f32): rank 1 waited in it; rank 3 did not come",
                "collective 1 of ranks 0-3 (all_reduce of 16 bytes of f32): ranks 0,2 waited in it; ranks 1,3 did not "
                "come"}));
}

TEST_F(FlightRecorderOfRanks, ComparesWhatGroupsHaveIssued) { run("OneDiffers", 3); }

// ---- the ranks' side

class FlightRanks : public testing::Test {
 protected:
  void SetUp() override {
    const char* flight = std::getenv("TEST_FLIGHT");
    if (!flight) GTEST_SKIP() << "not one of several";
    set_device("cpu");
    join_process_group({.backend = "gloo", .timeout = kSeconds, .flight_recorder = flight});
    began_ = std::chrono::steady_clock::now();
  }
  void TearDown() override { leave_process_group(); }

  static Tensor sum(const Axes& group = {}) {
    Tensor x = all_reduce(Tensor::from(std::vector<float>{1, 2, 3, 4}, {4}), 0, group);
    x.to_vector<float>();
    return x;
  }
  // What the user would read, after `work` has failed.
  template <typename Work>
  std::string failure_of(Work&& work) {
    try {
      work();
    } catch (const Error& error) {
      std::string text = error.what();
      report_failure(error.kind(), text);
      return text;
    }
    return "";
  }
  void sleep_until_lost() const {
    while (!fs::exists(flight_file(std::getenv("TEST_FLIGHT"), process_rank())) && seconds() < 3 * kSeconds)
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  double seconds() const { return std::chrono::duration<double>(std::chrono::steady_clock::now() - began_).count(); }
  std::chrono::steady_clock::time_point began_;
};

TEST_F(FlightRanks, DISABLED_OneSleeps) {
  for (int i = 0; i < 3; ++i) sum();
  if (process_rank() == 1) return sleep_until_lost();
  const std::string text = failure_of([] { sum(); });
  EXPECT_EQ(text.find("rank 1 is lost: it has not come to collective 4 of ranks 0-2 (all_reduce of 16 bytes of f32), "
                      "where rank "),
            0u)
      << text;
  EXPECT_NE(text.find("its last one was 3"), text.npos) << text;
  EXPECT_GT(seconds(), 0.9 * kSeconds);
  EXPECT_LT(seconds(), kSeconds + 2);
}

TEST_F(FlightRanks, DISABLED_OneDies) {
  for (int i = 0; i < 3; ++i) sum();
  if (process_rank() == 1) {
    std::this_thread::sleep_for(std::chrono::milliseconds(500));  // the others wait by then
    ::_exit(0);
  }
  EXPECT_EQ(failure_of([] { sum(); }), "rank 1 is lost: its process ended without a word");
}

TEST_F(FlightRanks, DISABLED_OneOfAGroupSleeps) {
  if (process_rank() == 3) {
    default_device()->communicator()->group({1, 3});
    return sleep_until_lost();
  }
  const std::string text = failure_of([] {
    if (process_rank() == 1) sum({1, 3});
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    sum();
  });
  EXPECT_EQ(text.find("rank 3 is lost: it has not come to collective 1 of ranks 1,3"), 0u) << text;
}

// Of the same size, so that the transport sees nothing wrong.
TEST_F(FlightRanks, DISABLED_OneDiffers) {
  sum();
  process_group()->expect_equal_collectives();
  if (process_rank() == 1) all_reduce(Tensor::from(std::vector<double>{1, 2}, {2}), 0).to_vector<double>();
  else sum();
  const std::string text = failure_of([] { process_group()->expect_equal_collectives(); });
  EXPECT_NE(text.find("rank 1 has issued other collectives than rank 0 among ranks 0-2: 2 and 2 of them"), text.npos)
      << text;
}

}  // namespace
}  // namespace transom
