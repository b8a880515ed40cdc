// SPDX-License-Identifier: Apache-2.0
// Training that is killed at any moment and resumed gives the bits of training that was not.
#include <gtest/gtest.h>

#include <chrono>
#include <random>
#include <thread>

#include "base/files/files.h"
#include "files/checkpoint/safetensors.h"
#include "support/program.h"
#include "support/small_model.h"
#include "support/temporary_folder.h"
#include "support/test_names.h"
#include "work/train/files/checkpoints.h"
#include "work/train/files/trainer_state.h"

namespace transom {
namespace {

using test::Outcome;
using test::Program;

constexpr int64_t kSteps = 30;  // of 7 an epoch, the last with 2 rows

class Training : public testing::Test {
 protected:
  void SetUp() override {
    save_small_model(folder_ / "model");
    write_rows(folder_ / "rows.jsonl", 26);
  }

  std::vector<std::string> words(const std::string& output, const std::string& limit, const std::string& resume) const {
    std::vector<std::string> result{"train",
                                    "--model_name_or_path",
                                    (folder_ / "model").string(),
                                    "--train_file",
                                    (folder_ / "rows.jsonl").string(),
                                    "--output_dir",
                                    (folder_ / output).string(),
                                    "--do_train",
                                    "--max_steps",
                                    std::to_string(kSteps),
                                    "--save_steps",
                                    "2",
                                    "--save_total_limit",
                                    limit,
                                    "--logging_steps",
                                    "1",
                                    "--per_device_train_batch_size",
                                    "4",
                                    "--learning_rate",
                                    "1e-3",
                                    "--seed",
                                    "5"};
    if (!resume.empty()) result.insert(result.end(), {"--resume_from_checkpoint", resume});
    return result;
  }

  // Whatever bears the name of a checkpoint is one.
  void expect_whole_checkpoints(const std::string& output) const {
    for (const std::string& name : checkpoints_in(folder_ / output)) {
      const fs::path checkpoint = folder_ / output / name;
      EXPECT_NO_THROW({
        EXPECT_FALSE(SafetensorsFile::open(checkpoint / "model.safetensors").tensors().empty());
        EXPECT_FALSE(SafetensorsFile::open(checkpoint / "optimizer.safetensors").tensors().empty());
        EXPECT_EQ(TrainerState::load(checkpoint / "trainer_state.json").global_step, checkpoint_step(name));
      }) << name;
    }
  }

  bool is_writing_a_checkpoint(const std::string& output) const {
    std::error_code none;
    for (const auto& entry : fs::directory_iterator(folder_ / output, none))
      if (entry.path().filename().string().starts_with(kUnfinishedPrefix)) return true;
    return false;
  }

  test::TemporaryFolder folder_;
};

// Also from the step before an epoch's last, smaller batch, for which a device may choose other kernels.
TEST_F(Training, ResumedAnywhereGivesTheSameBits) {
  const Outcome unbroken = Program(words("unbroken", "0", ""), folder_).wait();
  ASSERT_EQ(unbroken.status, 0) << unbroken.error;
  const std::vector<std::string> checkpoints = checkpoints_in(folder_ / "unbroken");
  EXPECT_EQ(checkpoints.size(), static_cast<size_t>(kSteps / 2));
  for (const std::string& checkpoint : checkpoints) {
    const Outcome resumed =
        Program(words("resumed", "1", (folder_ / "unbroken" / checkpoint).string()), folder_).wait();
    ASSERT_EQ(resumed.status, 0) << resumed.error;
    EXPECT_TRUE(read_file(folder_ / "unbroken" / "model.safetensors") ==
                read_file(folder_ / "resumed" / "model.safetensors"))
        << checkpoint;
    fs::remove_all(folder_ / "resumed");
  }
}

class Kill : public Training, public testing::WithParamInterface<unsigned> {};

TEST_P(Kill, ResumedTrainingGivesTheSameBits) {
  const auto begin = std::chrono::steady_clock::now();
  const Outcome unbroken = Program(words("unbroken", "2", ""), folder_).wait();
  ASSERT_EQ(unbroken.status, 0) << unbroken.error;
  const auto whole = std::chrono::steady_clock::now() - begin;

  std::mt19937 random(GetParam());
  int kills = 0;
  constexpr int kMostKills = 15;
  while (true) {
    Program program(words("killed", "2", last_whole_checkpoint(folder_ / "killed") ? "true" : ""), folder_);
    if (kills < kMostKills) {
      // By turns in the middle of writing or removing a checkpoint, and after some time.
      const auto end = std::chrono::steady_clock::now() + whole * (random() % 600) / 1000;
      const bool while_writing = kills % 2 == 0;
      while (program.is_running() &&
             (while_writing ? !is_writing_a_checkpoint("killed") : std::chrono::steady_clock::now() < end))
        std::this_thread::sleep_for(std::chrono::microseconds(200));
      if (while_writing) std::this_thread::sleep_for(std::chrono::microseconds(random() % 5000));
      if (program.is_running()) {
        program.kill();
        ++kills;
        expect_whole_checkpoints("killed");
        continue;
      }
    }
    const Outcome outcome = program.wait();
    ASSERT_EQ(outcome.status, 0) << outcome.error;
    break;
  }
  EXPECT_GT(kills, 0);
  RecordProperty("kills", kills);
  const std::string last = checkpoint_name(kSteps);
  for (const std::string& file : {std::string("model.safetensors"), last + "/model.safetensors",
                                  last + "/optimizer.safetensors", last + "/scheduler.json"})
    EXPECT_TRUE(read_file(folder_ / "unbroken" / file) == read_file(folder_ / "killed" / file)) << file;
  // Nothing is left of what was half-written.
  EXPECT_FALSE(is_writing_a_checkpoint("killed"));
  EXPECT_EQ(checkpoints_in(folder_ / "killed"), checkpoints_in(folder_ / "unbroken"));
  for (const auto& entry : fs::recursive_directory_iterator(folder_ / "killed"))
    EXPECT_NE(entry.path().extension(), ".tmp") << entry.path();
}

INSTANTIATE_TEST_SUITE_P(Seeds, Kill, testing::Values(1u, 2u, 3u), test::NameOfCase());

}  // namespace
}  // namespace transom
