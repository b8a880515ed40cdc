// SPDX-License-Identifier: Apache-2.0
// transom spawn with real processes.
#include <gtest/gtest.h>
#include <signal.h>

#include <fstream>
#include <iterator>
#include <set>
#include <sstream>

#include "support/command.h"
#include "support/folders.h"
#include "support/launchers.h"
#include "support/ranks.h"
#include "support/temporary_folder.h"

namespace transom {
namespace {

const std::string kSpawn = test::build_folder() + "/bin/transom spawn ";

std::multiset<std::string> lines_of(const std::string& text) {
  std::multiset<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.insert(line);
  return lines;
}

TEST(Spawn, TellsEachProcessItsPlace) {
  test::clear_launch();
  const auto outcome = test::run_command(
      kSpawn + "--nproc 3 -- sh -c 'echo $RANK of $WORLD_SIZE, $LOCAL_RANK of $LOCAL_WORLD_SIZE at $MASTER_ADDR'");
  EXPECT_EQ(outcome.status, 0);
  EXPECT_EQ(lines_of(outcome.output),
            (std::multiset<std::string>{"[0] 0 of 3, 0 of 3 at 127.0.0.1", "[1] 1 of 3, 1 of 3 at 127.0.0.1",
                                        "[2] 2 of 3, 2 of 3 at 127.0.0.1"}));
}

TEST(Spawn, StartsProcessesOnOtherMachines) {
  const test::TemporaryFolder folder;
  folder.write("hosts", "far slots=2\nlocalhost slots=1\n");
  const fs::path ssh = folder.write("ssh", "#!/bin/sh\necho \"to $1\" >&2\nshift\nexec sh -c \"$*\"\n");
  fs::permissions(ssh, fs::perms::owner_all);
  const auto outcome =
      test::run_command("cd " + folder.string() + " && TRANSOM_WORD='two words' " + kSpawn + "--ssh " + ssh.string() +
                        " --hostfile hosts -- sh -c 'echo $RANK $LOCAL_RANK "
                        "$MASTER_ADDR:$MASTER_PORT $TRANSOM_WORD'");
  EXPECT_EQ(outcome.status, 0);
  EXPECT_EQ(lines_of(outcome.output),
            (std::multiset<std::string>{"[0] to far", "[1] to far", "[0] 0 0 far:29500 two words",
                                        "[1] 1 1 far:29500 two words", "[2] 2 0 far:29500 two words"}));
}

TEST(Spawn, LetsMpirunStartThem) {
  if (std::system("command -v mpirun >/dev/null") != 0) GTEST_SKIP() << "no mpirun";
  const auto outcome =
      test::run_command(kSpawn + "--use_mpi --world_size 2 --no_prefix -- sh -c 'echo $OMPI_COMM_WORLD_RANK'");
  EXPECT_EQ(outcome.status, 0);
  EXPECT_EQ(lines_of(outcome.output), (std::multiset<std::string>{"0", "1"}));
}

TEST(Spawn, SaysWhichOneFailed) {
  const auto outcome =
      test::run_command(kSpawn + "--nproc 2 -- sh -c '[ $RANK = 0 ] || { echo no disk >&2; exit 7; }'");
  EXPECT_EQ(outcome.status, 1);
  EXPECT_EQ(lines_of(outcome.output),
            (std::multiset<std::string>{"[1] no disk", "transom: error: rank 1 ended with status 7: no disk"}));
  const auto wrong = test::run_command(kSpawn + "--nproc 2 --max_restarts 5 train --no_such_flag 3");
  EXPECT_EQ(wrong.status, 2);
  EXPECT_EQ(wrong.output.find("starting all again"), wrong.output.npos) << wrong.output;
}

TEST(Spawn, StartsAllAgainSoOften) {
  const test::TemporaryFolder folder;
  const auto outcome = test::run_command(kSpawn +
                                         "--nproc 2 --max_restarts 2 -- sh -c 'echo round "
                                         "$TORCHELASTIC_RESTART_COUNT; exit $RANK'");
  EXPECT_EQ(outcome.status, 1);
  EXPECT_EQ(lines_of(outcome.output).count("[0] round 2"), 1u);
  EXPECT_NE(outcome.output.find("rank 1 ended with status 1; starting all again (2 of 2)"), outcome.output.npos);
  EXPECT_NE(outcome.output.find("transom: error: rank 1 ended with status 1; all were started 3 times"),
            outcome.output.npos)
      << outcome.output;
}

TEST(Spawn, ShowsTheHelpOfTheCommandOnce) {
  const auto help = test::run_command(kSpawn + "--nproc 4 train --help");
  EXPECT_EQ(help.status, 0);
  EXPECT_EQ(help.output, test::run_command(test::build_folder() + "/bin/transom train --help").output);
  EXPECT_NE(test::run_command(kSpawn + "--help").output.find("--max_restarts"), std::string::npos);
}

// ---- a run

class SpawnedTraining : public testing::Test {
 protected:
  void SetUp() override {
    if (!test::has_library("transom_gloo.so")) GTEST_SKIP() << "built without gloo";
    test::clear_launch();
    ::setenv("TRANSOM_NUM_THREADS", "1", 1);
    test::save_model_and_rows(folder_, 24);
  }
  std::vector<std::string> words(const std::string& output, std::vector<std::string> spawn,
                                 const std::vector<std::string>& more = {}) const {
    spawn.insert(spawn.begin(), {"spawn", "--nproc", "2"});
    const auto train = test::training_words(folder_, "cpu", output, 2, {"--max_steps", "30", "--save_steps", "5"});
    spawn.insert(spawn.end(), train.begin(), train.end());
    spawn.insert(spawn.end(), more.begin(), more.end());
    return spawn;
  }
  // The process of that rank which trains into this directory; 0: none.
  pid_t process_of(const std::string& output, int rank) const {
    for (const auto& entry : fs::directory_iterator("/proc")) {
      const std::string name = entry.path().filename().string();
      if (name.find_first_not_of("0123456789") != name.npos) continue;
      const auto text = [&](const char* file) {
        std::ifstream stream(entry.path() / file, std::ios::binary);
        return '\0' + std::string(std::istreambuf_iterator<char>(stream), std::istreambuf_iterator<char>());
      };
      if (text("cmdline").find((folder_ / output).string()) != std::string::npos &&
          text("environ").find(std::string("\0RANK=", 6) + std::to_string(rank) + '\0') != std::string::npos)
        return std::stoi(name);
    }
    return 0;
  }
  void wait_for(const fs::path& path, test::Program& program) const {
    while (!fs::exists(folder_ / path) && program.is_running())
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  test::TemporaryFolder folder_;
};

TEST_F(SpawnedTraining, ResumesAfterAKill) {
  fs::create_directories(folder_ / "out");
  test::Program whole(words("whole", {}), folder_.path() / "out");
  ASSERT_EQ(whole.wait().status, 0);
  test::Program killed(words("killed", {"--max_restarts", "3", "--no_prefix"}), folder_.path() / "out");
  wait_for("killed/checkpoint-5", killed);
  const pid_t rank = process_of("killed", 1);
  ASSERT_GT(rank, 0);
  ::kill(rank, SIGKILL);
  const test::Outcome outcome = killed.wait();
  EXPECT_EQ(outcome.status, 0) << outcome.error;
  EXPECT_NE(outcome.error.find("rank 1 was ended by signal 9 (Killed); starting all again (1 of 3)"), std::string::npos)
      << outcome.error;
  for (const char* file : {"model.safetensors", "checkpoint-30/optimizer.safetensors"})
    EXPECT_EQ(read_file(folder_ / "whole" / file), read_file(folder_ / "killed" / file)) << file;
}

TEST_F(SpawnedTraining, EndsWithACheckpointAtASignal) {
  fs::create_directories(folder_ / "out");
  test::Program program(words("ended", {}, {"--max_steps", "100000"}), folder_.path() / "out");
  wait_for("ended/checkpoint-5", program);
  program.signal(SIGTERM);
  const test::Outcome outcome = program.wait();
  EXPECT_EQ(outcome.status, 128 + SIGTERM) << outcome.error;
  EXPECT_NE(outcome.error.find("interrupted; saved"), std::string::npos) << outcome.error;
}

}  // namespace
}  // namespace transom
