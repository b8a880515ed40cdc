// SPDX-License-Identifier: Apache-2.0
// transom train as several processes, launched as torchrun and mpirun do.
#include <gtest/gtest.h>
#include <signal.h>

#include <cstdlib>
#include <fstream>

#include "support/folders.h"
#include "support/ranks.h"
#include "support/temporary_folder.h"

namespace transom {
namespace {

using test::expect_same_curve;
using test::has_library;
using test::Outcome;

class SeveralProcesses : public testing::Test {
 protected:
  void SetUp() override { test::save_model_and_rows(folder_, 22); }

  std::vector<std::string> words(const std::string& output, int batch, std::vector<std::string> more = {}) const {
    return test::training_words(folder_, "cpu", output, batch, more);
  }
  std::vector<Outcome> run(const std::vector<std::string>& words, int ranks) const {
    return test::run_ranks(words, folder_, ranks);
  }

  test::TemporaryFolder folder_;
};

TEST_F(SeveralProcesses, LearnAsOneWithTheWholeBatch) {
  if (!has_library("transom_gloo.so")) GTEST_SKIP() << "built without gloo";
  // 5 updates of 4 rows: the sixth batch of an epoch is not full, where several processes fill up.
  const std::vector<std::string> more{
      "--max_steps", "5", "--validation_file", (folder_ / "rows.jsonl").string(), "--per_device_eval_batch_size", "3"};
  const Outcome one = run(words("one", 4, more), 1)[0];
  ASSERT_EQ(one.status, 0) << one.error;
  const std::vector<Outcome> four = run(words("four", 1, more), 4);
  for (const Outcome& outcome : four) ASSERT_EQ(outcome.status, 0) << outcome.error;
  expect_same_curve(one.output, four[0].output, 1e-5);
  // One speaks for all, and writes what one process writes.
  for (size_t rank = 1; rank < four.size(); ++rank) EXPECT_EQ(four[rank].output + four[rank].error, "");
  const Json alone = read_json(folder_ / "one" / "all_results.json"),
             all = read_json(folder_ / "four" / "all_results.json");
  EXPECT_EQ(alone.at("eval_accuracy"), all.at("eval_accuracy"));
  EXPECT_EQ(alone.at("eval_samples"), all.at("eval_samples"));
  EXPECT_TRUE(fs::exists(folder_ / "four" / "model.safetensors"));
}

// Small pieces travel one by one, and change no number.
TEST_F(SeveralProcesses, ExchangeGradientsInPiecesOfAnySize) {
  if (!has_library("transom_gloo.so")) GTEST_SKIP() << "built without gloo";
  const Outcome whole = run(words("whole", 2, {"--max_steps", "3"}), 2)[0];
  const Outcome pieces = run(words("pieces", 2, {"--max_steps", "3", "--ddp_bucket_cap_mb", "0.001"}), 2)[0];
  ASSERT_EQ(whole.status, 0) << whole.error;
  ASSERT_EQ(pieces.status, 0) << pieces.error;
  expect_same_curve(whole.output, pieces.output, 1e-6);
}

TEST_F(SeveralProcesses, AreLaunchedByMpirun) {
  if (!has_library("transom_mpi.so") || std::system("command -v mpirun >/dev/null") != 0)
    GTEST_SKIP() << "there is no MPI";
  const Outcome one = run(words("one", 2, {"--max_steps", "4"}), 1)[0];
  std::string call = test::mpirun() + " -n 2 " + test::build_folder() + "/bin/transom";
  for (const std::string& word : words("two", 1, {"--max_steps", "4", "--ddp_backend", "mpi"})) call += " " + word;
  call += " > " + (folder_ / "output").string();
  ASSERT_EQ(std::system(call.c_str()), 0);
  expect_same_curve(one.output, read_file(folder_ / "output"), 1e-5);
}

// The real launcher of PyTorch, where one is installed.
TEST_F(SeveralProcesses, AreLaunchedByTorchrun) {
  if (!has_library("transom_gloo.so") || std::system("command -v torchrun >/dev/null") != 0)
    GTEST_SKIP() << "there is no torchrun";
  const Outcome one = run(words("one", 2, {"--max_steps", "4"}), 1)[0];
  std::string call = "torchrun --nproc-per-node 2 --master-port " + std::to_string(test::free_port()) +
                     " --no-python " + test::build_folder() + "/bin/transom";
  for (const std::string& word : words("two", 1, {"--max_steps", "4"})) call += " " + word;
  call += " > " + (folder_ / "output").string();
  ASSERT_EQ(std::system(call.c_str()), 0);
  expect_same_curve(one.output, read_file(folder_ / "output"), 1e-5);
}

TEST_F(SeveralProcesses, RefuseAnotherDevicesTransport) {
  if (!has_library("transom_gloo.so")) GTEST_SKIP() << "built without gloo";
  const std::vector<Outcome> outcomes = run(words("out", 1, {"--max_steps", "2", "--ddp_backend", "hccl"}), 2);
  std::string said;
  for (const Outcome& outcome : outcomes) {
    EXPECT_EQ(outcome.status, 1);
    said += outcome.error;
  }
  EXPECT_EQ(std::count(said.begin(), said.end(), '\n'), 1) << said;
  EXPECT_NE(said.find("ddp_backend: expected mpi or gloo for this device, found 'hccl'"), std::string::npos) << said;
}

TEST_F(SeveralProcesses, EndTogetherAndResumeToTheSameBits) {
  if (!has_library("transom_gloo.so")) GTEST_SKIP() << "built without gloo";
  test::expect_that_killing_one_ends_all(
      folder_, [&](const std::string& output, const std::vector<std::string>& more) { return words(output, 2, more); });
}

// mpirun ends the others of a job itself as soon as it sees one die; they may have said before who it was.
TEST_F(SeveralProcesses, EndUnderMpirunAndLeaveAWholeCheckpoint) {
  if (!has_library("transom_mpi.so") || std::system("command -v mpirun >/dev/null") != 0)
    GTEST_SKIP() << "there is no MPI";
  const auto command = [&](const char* steps, const std::string& more) {
    std::string call = test::mpirun() + " -n 3 sh -c 'echo $$ > " + folder_.string() +
                       "/rank$OMPI_COMM_WORLD_RANK; exec \"$0\" \"$@\"' " + test::build_folder() + "/bin/transom";
    for (const std::string& word :
         words("killed", 2, {"--max_steps", steps, "--save_steps", "5", "--ddp_backend", "mpi"}))
      call += " " + word;
    return call + more + " > /dev/null 2> " + (folder_ / "said").string();
  };
  std::thread killer([&] {
    const auto end = std::chrono::steady_clock::now() + std::chrono::minutes(5);
    while (!fs::exists(folder_ / "killed" / "checkpoint-5") && std::chrono::steady_clock::now() < end)
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    std::ifstream file(folder_ / "rank1");
    if (pid_t process = 0; file >> process) ::kill(process, SIGKILL);
  });
  const int state = std::system(command("1000000", "").c_str());
  killer.join();
  EXPECT_NE(state, 0);
  const std::string said = read_file(folder_ / "said"), mark = "transom: error: ";
  if (const size_t at = said.find(mark); at != said.npos) {
    EXPECT_EQ(said.substr(at + mark.size()).find("rank 1 is lost"), 0u) << said;
    EXPECT_EQ(said.find(mark, at + 1), said.npos) << said;
  }
  const std::string resume = " --resume_from_checkpoint " + (folder_ / "killed" / "checkpoint-5").string();
  EXPECT_EQ(std::system(command("7", resume).c_str()), 0) << read_file(folder_ / "said");
}

}  // namespace
}  // namespace transom
