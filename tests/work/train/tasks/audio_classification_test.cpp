// SPDX-License-Identifier: Apache-2.0
// From folders of sounds, or a table of them, to a model that knows them.
#include <gtest/gtest.h>

#include "base/files/files.h"
#include "inputs/data/text/padding.h"
#include "support/temporary_folder.h"
#include "work/train/sound_files.h"
#include "work/train/tasks/task_data.h"

namespace transom {
namespace {

class SoundTraining : public testing::Test {
 protected:
  void SetUp() override {
    for (const auto& [name, hertz] : {std::pair{"high", 3000.0}, {"low", 300.0}}) {
      fs::create_directories(folder_ / "sounds" / name);
      for (int i = 0; i < 4; ++i)
        write_file(folder_ / "sounds" / name / (std::to_string(i) + ".wav"),
                   test::tones({{hertz * (1 + 0.03 * i), 1200 + 100 * i}}));
    }
    write_file(folder_ / "config.json", test::small_speech_model("Wav2Vec2ForSequenceClassification"));
  }

  TrainArguments arguments() const {
    TrainArguments result;
    result.script.config_name = (folder_ / "config.json").string();
    result.script.max_length_seconds = 0.08;
    result.script.freeze_feature_encoder = false;
    result.training.output_dir = (folder_ / "out").string();
    result.training.per_device_train_batch_size = 4;
    result.training.num_train_epochs = 30;
    result.training.learning_rate = 5e-3;
    result.training.do_train = result.training.do_eval = true;
    result.training.resolve();
    return result;
  }
  test::TemporaryFolder folder_;
};

double accuracy_after_training(const TrainArguments& arguments) {
  TaskSetup task = prepare_task(arguments);
  EXPECT_EQ(task.model->labels(), (std::vector<std::string>{"high", "low"}));
  Trainer trainer(std::move(task.model), arguments.training);
  configure_trainer(trainer, task);
  trainer.train();
  for (const auto& [name, value] : trainer.evaluate())
    if (name == "eval_accuracy") return value;
  return 0;
}

TEST_F(SoundTraining, LearnsFolders) {
  TrainArguments given = arguments();
  given.script.train_dir = given.script.validation_dir = (folder_ / "sounds").string();
  EXPECT_EQ(accuracy_after_training(given), 1);
}

TEST_F(SoundTraining, HiddenFoldersDoNotNameTheTask) {
  for (const char* hidden : {".thumbnails", "__MACOSX"}) {
    std::filesystem::create_directory(folder_ / "sounds" / hidden);
    write_file(folder_ / "sounds" / hidden / "cover.png", "a picture");
  }
  TrainArguments given = arguments();
  ASSERT_FALSE(given.script.task);
  given.script.train_dir = given.script.validation_dir = (folder_ / "sounds").string();
  EXPECT_EQ(prepare_task(given).model->labels(), (std::vector<std::string>{"high", "low"}));
}

TEST_F(SoundTraining, LearnsATable) {
  std::string rows = "audio,label\n";
  for (const char* name : {"low", "high"})
    for (int i = 0; i < 4; ++i) rows += std::string("sounds/") + name + "/" + std::to_string(i) + ".wav," + name + "\n";
  write_file(folder_ / "rows.csv", rows);
  TrainArguments given = arguments();
  given.script.train_file = given.script.validation_file = (folder_ / "rows.csv").string();
  EXPECT_EQ(accuracy_after_training(given), 1);
}

TEST_F(SoundTraining, LongSoundsAreCutForTrainingAlone) {
  TrainArguments given = arguments();
  given.script.train_dir = given.script.validation_dir = (folder_ / "sounds").string();
  const TaskSetup task = prepare_task(given);
  Batch batch = task.train->batch({3, 0});
  task.train->augment(batch, 1);
  EXPECT_EQ(batch.arrays.at("input_values").shape, (std::vector<int64_t>{2, 1280}));
  EXPECT_EQ(batch.sequences.at("attention_mask").values[1279], 1);
  EXPECT_EQ(batch.sequences.at("attention_mask").values[1280 + 1200], 0);
  EXPECT_EQ(task.validation->batch({3}).arrays.at("input_values").shape[1], 1500);
}

}  // namespace
}  // namespace transom
