// SPDX-License-Identifier: Apache-2.0
// Several cards train as one: eight of one server, two servers of four, and what is left when a process is killed. The
// emulator makes as many cards as its variables say; on a machine with cards the processes take those.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>

#include "testing/ranks.h"
#include "testing/temporary_folder.h"

namespace transom {
namespace {

using test::Outcome;
using test::Program;

constexpr int kCards = 8;

class SeveralCards : public testing::Test {
 protected:
  void SetUp() override {
    ::setenv("TRANSOM_SYNAPSE_DEVICES", std::to_string(kCards).c_str(), 1);
    const Outcome devices = Program({"devices"}, folder_).wait();
    if (devices.output.find("hpu:" + std::to_string(kCards - 1)) == std::string::npos)
      GTEST_SKIP() << "eight Gaudis are not here";
    ::setenv("TRANSOM_SYNAPSE_SERVER", folder_.path().filename().c_str(), 1);
    test::save_model_and_rows(folder_, 40);
  }
  void TearDown() override {
    for (const char* name : {"TRANSOM_SYNAPSE_DEVICES", "TRANSOM_SYNAPSE_SERVER"}) ::unsetenv(name);
  }
  std::vector<std::string> words(const std::string& output, int batch, const std::vector<std::string>& more) const {
    return test::training_words(folder_, "hpu", output, batch, more);
  }
  const std::vector<std::string> five_ = {"--max_steps", "5", "--ddp_backend", "hccl"};
  test::TemporaryFolder folder_;
};

TEST_F(SeveralCards, LearnAsOneWithEightTimesTheBatch) {
  const Outcome one = test::run_ranks(words("one", kCards, {"--max_steps", "5"}), folder_, 1)[0];
  ASSERT_EQ(one.status, 0) << one.error;
  const std::vector<Outcome> eight = test::run_ranks(words("eight", 1, five_), folder_, kCards);
  std::string said;  // of a lost rank another one tells
  for (const Outcome& outcome : eight) said += outcome.error;
  for (const Outcome& outcome : eight) ASSERT_EQ(outcome.status, 0) << said;
  test::expect_same_curve(one.output, eight[0].output, 1e-5);
}

TEST_F(SeveralCards, LearnAsOneOnTwoServers) {
  const Outcome one = test::run_ranks(words("one", kCards, {"--max_steps", "5"}), folder_, 1)[0];
  ASSERT_EQ(one.status, 0) << one.error;
  const std::string servers = test::partner_folder() + "/../../scripts/two-servers";
  if (!test::fs::exists(servers)) GTEST_SKIP() << "there is no " << servers;
  // Each server has cards of its own.
  std::string call = servers +
                     " -n 4 sh -c 'HCCL_SOCKET_IFNAME=cable TRANSOM_SYNAPSE_DEVICES=$LOCAL_WORLD_SIZE "
                     "TRANSOM_SYNAPSE_SERVER=$SERVER exec \"$0\" \"$@\"' " +
                     test::program_path();
  for (const std::string& word : words("two", 1, five_)) call += " " + word;
  call += " > " + (folder_ / "output").string() + " 2> " + (folder_ / "error").string();
  const int state = std::system(call.c_str());
  if (WIFEXITED(state) && WEXITSTATUS(state) == 77) GTEST_SKIP() << test::read_file(folder_ / "error");
  ASSERT_EQ(state, 0) << test::read_file(folder_ / "error");
  test::expect_same_curve(one.output, test::read_file(folder_ / "output"), 1e-5);
}

// all_to_all and messages among them, which training does not use.
TEST_F(SeveralCards, KeepThePromisesOfCollectives) {
  const test::fs::path certificate = folder_ / "certificate";
  const Outcome outcome =
      Program({"certify", "--device", "hpu:0", "--level", "behaviour", "--seed", "1", "--output", certificate.string()},
              folder_)
          .wait();
  const test::Json report = test::read_json(certificate / "certificate.json");
  size_t checked = 0;
  for (const test::Json& row : report["rows"]) {
    if (row["subject"] != "collectives") continue;
    EXPECT_EQ(row["verdict"], "pass") << row["note"] << outcome.error;
    ++checked;
  }
  EXPECT_EQ(checked, 1u) << outcome.output;
}

// The one that finds no card would leave the other waiting for it.
TEST_F(SeveralCards, EndTogetherWhereOneHasNone) {
  ::setenv("TRANSOM_SYNAPSE_DEVICES", "1", 1);
  std::string said;
  for (const Outcome& outcome : test::run_ranks(words("out", 1, five_), folder_, 2)) {
    EXPECT_EQ(outcome.status, 1);
    said += outcome.error;
  }
  EXPECT_EQ(std::count(said.begin(), said.end(), '\n'), 1) << said;
  EXPECT_EQ(said.find("transom: error: rank "), 0u) << said;  // whichever came second to the card
}

TEST_F(SeveralCards, EndTogetherAndResumeToTheSameBits) {
  test::expect_that_killing_one_ends_all(
      folder_, [&](const std::string& output, const std::vector<std::string>& more) { return words(output, 2, more); });
}

}  // namespace
}  // namespace transom
