// SPDX-License-Identifier: Apache-2.0
// Ctrl-C and SIGTERM during training: a checkpoint, the command to resume, and the status that shells expect.
#include "apps/cli/interrupt.h"

#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <thread>

#include "base/files/files.h"
#include "support/program.h"
#include "support/small_model.h"
#include "support/temporary_folder.h"
#include "work/train/files/checkpoints.h"
#include "work/train/files/trainer_state.h"

namespace transom {
namespace {

using test::Outcome;
using test::Program;

class Interrupt : public testing::Test {
 protected:
  void SetUp() override {
    save_small_model(folder_ / "model");
    write_rows(folder_ / "rows.jsonl", 26);
  }
  std::vector<std::string> words(const std::string& output, int64_t steps) const {
    return {"train",
            "--model_name_or_path",
            (folder_ / "model").string(),
            "--train_file",
            (folder_ / "rows.jsonl").string(),
            "--output_dir",
            (folder_ / output).string(),
            "--do_train",
            "--max_steps",
            std::to_string(steps),
            "--save_strategy",
            "no",
            "--logging_steps",
            "1",
            "--per_device_train_batch_size",
            "4"};
  }
  // A run that has made its first step.
  std::unique_ptr<Program> started(const std::vector<std::string>& call) const {
    fs::remove(folder_ / "standard_output");
    auto program = std::make_unique<Program>(call, folder_);
    std::error_code none;
    while (program->is_running() &&
           (!fs::exists(folder_ / "standard_output", none) || fs::file_size(folder_ / "standard_output", none) == 0))
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    return program;
  }

  test::TemporaryFolder folder_;
};

TEST_F(Interrupt, SavesACheckpointAndSaysHowToResume) {
  for (const auto& [signal, status] : {std::pair(SIGINT, 130), std::pair(SIGTERM, 143)}) {
    const std::string output = "out" + std::to_string(signal);
    const auto program = started(words(output, 1'000'000));
    program->signal(signal);
    const Outcome outcome = program->wait();
    EXPECT_EQ(outcome.status, status) << outcome.error;
    const auto checkpoint = last_whole_checkpoint(folder_ / output);
    ASSERT_TRUE(checkpoint) << outcome.error;
    EXPECT_EQ(checkpoints_in(folder_ / output).size(), 1u);
    const std::string directory = (folder_ / output / *checkpoint).string();
    EXPECT_NE(outcome.error.find("interrupted; saved " + directory), std::string::npos) << outcome.error;
    EXPECT_NE(outcome.error.find(" --resume_from_checkpoint " + directory), std::string::npos) << outcome.error;
    EXPECT_FALSE(fs::exists(folder_ / output / "model.safetensors"));
  }
}

// The learning rate of a schedule depends on the number of steps, so that both runs are told the same one.
TEST_F(Interrupt, TheResumedRunEndsWithTheBitsOfAnUnbrokenOne) {
  constexpr int64_t kSteps = 400;
  const Outcome unbroken = Program(words("unbroken", kSteps), folder_).wait();
  ASSERT_EQ(unbroken.status, 0) << unbroken.error;
  const auto program = started(words("broken", kSteps));
  program->signal(SIGTERM);
  const Outcome outcome = program->wait();
  ASSERT_EQ(outcome.status, 143) << outcome.error;
  // As the message tells it.
  std::vector<std::string> rest = words("broken", kSteps);
  rest.insert(rest.end(), {"--resume_from_checkpoint"});
  const Outcome resumed = Program(rest, folder_).wait();
  ASSERT_EQ(resumed.status, 0) << resumed.error;
  EXPECT_TRUE(read_file(folder_ / "unbroken" / "model.safetensors") ==
              read_file(folder_ / "broken" / "model.safetensors"));
}

TEST_F(Interrupt, TheSecondSignalEndsAtOnce) {
  const auto program = started(words("out", 1'000'000));
  program->signal(SIGINT);
  program->signal(SIGINT);
  const Outcome outcome = program->wait();
  // By the signal itself, unless the run had ended between the two.
  EXPECT_TRUE(outcome.status == -1 || outcome.status == 130) << outcome.status;
}

TEST(ShellWords, AreReadBackByAShell) {
  EXPECT_EQ(shell_words({"--output_dir", "out", "--delimiter", ";"}), "--output_dir out --delimiter ';'");
  EXPECT_EQ(shell_words({"a b", "it's", "", "$x"}), "'a b' 'it'\\''s' '' '$x'");
}

// The handlers stand from the beginning of the training to its end, and what stood before comes back.
TEST(InterruptHandlers, AreThoseOfBeforeAfterTheTraining) {
  const auto handler_of = [](int signal) {
    struct sigaction action {};
    ::sigaction(signal, nullptr, &action);
    return action.sa_handler;
  };
  const auto before = handler_of(SIGINT);
  {
    const auto callback = interrupt_on_signals();
    EXPECT_EQ(handler_of(SIGINT), before);
    callback->on_train_begin({}, TrainerState());
    EXPECT_NE(handler_of(SIGINT), before);
    EXPECT_FALSE(callback->should_interrupt());
    ::raise(SIGINT);
    EXPECT_TRUE(callback->should_interrupt());
    EXPECT_EQ(interrupting_signal(), SIGINT);
    for (const int signal : {SIGINT, SIGTERM}) EXPECT_EQ(handler_of(signal), SIG_DFL);  // the second one ends
    callback->on_train_end({}, TrainerState());
    EXPECT_EQ(handler_of(SIGINT), before);
    callback->on_train_begin({}, TrainerState());
    EXPECT_FALSE(callback->should_interrupt());  // of a training before
  }
  EXPECT_EQ(handler_of(SIGINT), before);  // also where the training ended with an error
}

}  // namespace
}  // namespace transom
