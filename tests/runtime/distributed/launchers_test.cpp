// SPDX-License-Identifier: Apache-2.0
// transom train as two processes with the variables of each launcher: one run of two ranks, or a refusal, and never two
// runs that each believe to be rank 0.
#include <gtest/gtest.h>
#include <signal.h>

#include "support/launchers.h"
#include "support/ranks.h"
#include "support/temporary_folder.h"

namespace transom {
namespace {

using test::Outcome;
using test::Variables;

class Launchers : public testing::Test {
 protected:
  void SetUp() override {
    if (!test::has_library("transom_gloo.so")) GTEST_SKIP() << "built without gloo";
    test::save_model_and_rows(folder_, 22);
  }
  std::vector<std::string> words(const std::string& output, int batch) const {
    return test::training_words(folder_, "cpu", output, batch, {"--max_steps", "3"});
  }
  // What each of the processes said, which were started with these variables.
  std::vector<Outcome> run(const std::vector<std::string>& words, const std::vector<Variables>& processes) const {
    std::vector<std::unique_ptr<test::Program>> programs;
    for (size_t i = 0; i < processes.size(); ++i) {
      test::set_launch(processes[i]);
      const fs::path place = folder_ / ("process" + std::to_string(i));
      fs::create_directories(place);
      programs.push_back(std::make_unique<test::Program>(words, place));
    }
    test::clear_launch();
    std::vector<Outcome> outcomes;
    for (const auto& program : programs) outcomes.push_back(program->wait());
    return outcomes;
  }
  // Both learn together: the curve is that of one process with the whole batch, and one of them speaks.
  void expect_one_run(const std::vector<Variables>& processes) const {
    const Outcome one = run(words("one", 2), {{}})[0];
    ASSERT_EQ(one.status, 0) << one.error;
    const std::vector<Outcome> two = run(words("two", 1), processes);
    for (const Outcome& outcome : two) ASSERT_EQ(outcome.status, 0) << outcome.error;
    test::expect_same_curve(one.output, two[0].output, 1e-5);
    EXPECT_EQ(two[1].output + two[1].error, "");
  }
  void expect_refusal(const std::vector<Variables>& processes, const std::string& text) const {
    for (const Outcome& outcome : run(words("refused", 1), processes)) {
      EXPECT_EQ(outcome.status, 2);
      EXPECT_NE(outcome.error.find(text), std::string::npos) << outcome.error;
    }
    EXPECT_FALSE(fs::exists(folder_ / "refused"));
  }
  static Variables with(Variables variables, const Variables& more) {
    variables.insert(more.begin(), more.end());
    variables["MASTER_PORT"] = std::to_string(port());
    return variables;
  }
  static uint16_t port() {
    static const uint16_t free = test::free_port();
    return free;
  }
  test::TemporaryFolder folder_;
};

TEST_F(Launchers, SrunsTasksAreOneRun) {
  expect_one_run({with(test::srun_variables(0, {2}), {}), with(test::srun_variables(1, {2}), {})});
}

TEST_F(Launchers, SrunsTasksWithPmixAreOneRun) {
  const auto task = [](int64_t rank) {
    return with(test::srun_variables(rank, {2}),
                {{"PMIX_RANK", std::to_string(rank)}, {"PMIX_NAMESPACE", "slurm.pmix.31.2"}});
  };
  expect_one_run({task(0), task(1)});
}

TEST_F(Launchers, SrunsTasksWithPmi2AreOneRun) {
  const auto task = [](int64_t rank) {
    return with(test::srun_variables(rank, {2}), {{"PMI_RANK", std::to_string(rank)}, {"PMI_SIZE", "2"}});
  };
  expect_one_run({task(0), task(1)});
}

TEST_F(Launchers, HydrasProcessesAreOneRun) {
  const auto process = [](const char* rank) {
    return with({}, {{"PMI_RANK", rank}, {"PMI_SIZE", "2"}, {"MPI_LOCALRANKID", rank}, {"MPI_LOCALNRANKS", "2"}});
  };
  expect_one_run({process("0"), process("1")});
}

TEST_F(Launchers, PrterunsProcessesAreRefused) {
  const auto process = [](const char* rank) {
    return Variables{{"PMIX_RANK", rank}, {"PMIX_NAMESPACE", "prterun-host-7@1"}, {"PMIX_HOSTNAME", "host"}};
  };
  expect_refusal({process("0"), process("1")}, "nothing says of how many processes");
}

TEST_F(Launchers, TheShellOfAJobOfSeveralTasksIsRefused) {
  expect_refusal({{{"SLURM_JOB_ID", "31"}, {"SLURM_NTASKS", "2"}, {"SLURM_PROCID", "0"}}}, "start it with srun");
}

// The shell of a job of one task needs no launcher.
TEST_F(Launchers, TheShellOfAJobOfOneTaskIsOneProcess) {
  const Outcome outcome =
      run(words("shell", 2), {{{"SLURM_JOB_ID", "31"}, {"SLURM_NTASKS", "1"}, {"SLURM_PROCID", "0"}}})[0];
  EXPECT_EQ(outcome.status, 0) << outcome.error;
}

// A process that stands still, as one whose server lost its network does, ends the others within the time that they
// wait for each other.
TEST_F(Launchers, AStoppedProcessEndsTheOthers) {
  constexpr int kRanks = 3, kStopped = 1;
  const auto programs =
      test::start_ranks(test::training_words(folder_, "cpu", "stopped", 2,
                                             {"--max_steps", "1000000", "--save_steps", "5", "--ddp_timeout", "6"}),
                        folder_, kRanks);
  while (!fs::exists(folder_ / "stopped" / "checkpoint-5") && programs[0]->is_running())
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  ::kill(programs[kStopped]->process(), SIGSTOP);
  const auto began = std::chrono::steady_clock::now();
  std::string said;
  for (int rank = 0; rank < kRanks; ++rank) {
    if (rank == kStopped) continue;
    const Outcome outcome = programs[static_cast<size_t>(rank)]->wait();
    EXPECT_EQ(outcome.status, 1);
    said += outcome.error;
  }
  EXPECT_LT(std::chrono::steady_clock::now() - began, std::chrono::seconds(30));
  EXPECT_EQ(said.find("transom: error: rank 1 is lost: it has given no sign of life for 6 seconds"), 0u) << said;
  EXPECT_EQ(std::count(said.begin(), said.end(), '\n'), 1) << said;
  // Once it goes on it ends, too, and says nothing.
  ::kill(programs[kStopped]->process(), SIGCONT);
  const Outcome stopped = programs[kStopped]->wait();
  EXPECT_EQ(stopped.status, 1);
  EXPECT_EQ(stopped.error, "");
}

}  // namespace
}  // namespace transom
