// SPDX-License-Identifier: Apache-2.0
// From folders of videos to a model that knows them.
#include <gtest/gtest.h>

#include "base/files/files.h"
#include "inputs/data/tables/labelled_files.h"
#include "inputs/data/text/padding.h"
#include "support/bitmap.h"
#include "support/golden.h"
#include "support/message.h"
#include "support/temporary_folder.h"
#include "transom/error.h"
#include "work/train/tasks/task_data.h"

namespace transom {
namespace {

constexpr size_t kSide = 8;
constexpr int kFrames = 3;

// Four videos a class, each a folder of three frames, whose colour becomes brighter or darker.
class VideoTraining : public testing::Test {
 protected:
  void SetUp() override {
    for (const bool brighter : {true, false})
      for (int video = 0; video < 4; ++video) {
        const fs::path frames = folder_ / "train" / (brighter ? "brighter" : "darker") / std::to_string(video);
        fs::create_directories(frames);
        for (int i = 0; i < kFrames; ++i) {
          const auto level = static_cast<uint8_t>(brighter ? 10 + 110 * i + video : 240 - 110 * i - video);
          write_file(frames / (std::to_string(i) + ".bmp"), test::bitmap(kSide, [&](size_t) {
                       return std::array<uint8_t, 3>{level, level, level};
                     }));
        }
      }
    Model::from_config(R"({"model_type": "videomae", "architectures": ["VideoMAEForVideoClassification"],
      "image_size": 8, "patch_size": 4, "num_frames": 2, "tubelet_size": 2, "hidden_size": 16,
      "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16})")
        ->save_pretrained((folder_ / "model").string());
    write_file(folder_ / "model" / "preprocessor_config.json",
               R"({"image_processor_type": "VideoMAEImageProcessor", "size": {"shortest_edge": 8},
                   "crop_size": {"height": 8, "width": 8}})");
    arguments_.script.task = "video-classification";
    arguments_.script.model_name_or_path = (folder_ / "model").string();
    arguments_.script.train_dir = (folder_ / "train").string();
    arguments_.training.output_dir = (folder_ / "out").string();
    arguments_.training.per_device_train_batch_size = 8;
    arguments_.training.num_train_epochs = 30;
    arguments_.training.learning_rate = 1e-2;
    arguments_.training.do_train = true;
    arguments_.training.resolve();
  }
  std::string message() {
    return test::message_without_folders([&] { prepare_task(arguments_); });
  }
  test::TemporaryFolder folder_;
  TrainArguments arguments_;
};

TEST_F(VideoTraining, FoldersOfFramesAndAnimationsAreVideos) {
  write_file(folder_ / "train" / "darker" / "clip.gif", read_file(test::golden_folder() / "video" / "plain.gif"));
  fs::create_directories(folder_ / "train" / "darker" / "more");
  write_file(folder_ / "train" / "darker" / "more" / "clip.gif",
             read_file(test::golden_folder() / "video" / "kept.gif"));
  const TaskSetup task = prepare_task(arguments_);
  EXPECT_EQ(task.model->labels(), (std::vector<std::string>{"brighter", "darker"}));
  EXPECT_EQ(task.train->rows, 10);
  Batch batch = task.train->batch({0, 4, 8});
  task.train->augment(batch, 1);
  EXPECT_EQ(batch.arrays.at("pixel_values").shape, (Shape{3, 2, 3, 8, 8}));
}

// The first frame that is taken is drawn, and equal draws take the same.
TEST_F(VideoTraining, ADrawTakesFramesThatFollowEachOther) {
  const TaskSetup task = prepare_task(arguments_);
  const auto drawn = [&](uint64_t draw) {
    Batch batch = task.train->batch({0, 1, 2, 3});
    task.train->augment(batch, draw);
    return batch.arrays.at("pixel_values").values;
  };
  EXPECT_EQ(drawn(1), drawn(1));
  EXPECT_NE(drawn(1), drawn(2));
  constexpr float kStep = 110 / 127.5f;
  const std::vector<float> values = drawn(1);
  const size_t frame = 3 * kSide * kSide;
  for (size_t video = 0; video < 4; ++video)
    EXPECT_NEAR(values[(2 * video + 1) * frame] - values[2 * video * frame], kStep, 1e-3);
}

TEST_F(VideoTraining, LearnsWhichBecomeBrighter) {
  arguments_.script.validation_dir = arguments_.script.train_dir;
  arguments_.training.do_eval = true;
  TaskSetup task = prepare_task(arguments_);
  EXPECT_EQ(task.validation->rows, 8);
  Trainer trainer(std::move(task.model), arguments_.training);
  configure_trainer(trainer, task);
  trainer.train();
  double accuracy = 0;
  for (const auto& [name, value] : trainer.evaluate())
    if (name == "eval_accuracy") accuracy = value;
  EXPECT_EQ(accuracy, 1);
  trainer.save_model();
  EXPECT_TRUE(fs::exists(folder_ / "out" / "preprocessor_config.json"));
}

TEST_F(VideoTraining, VideosThatAreTooShortAreRefused) {
  const fs::path video = folder_ / "train" / "darker" / "3";
  fs::remove(video / "1.bmp"), fs::remove(video / "2.bmp");
  EXPECT_EQ(message(), "3: has 1 frames: expected at least 2 (num_frames of the model)");
}

}  // namespace
}  // namespace transom
