// SPDX-License-Identifier: Apache-2.0
// Pictures without labels, from which masked autoencoders learn.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "base/files/files.h"
#include "inputs/images/write_png.h"
#include "support/kept_log.h"
#include "support/message.h"
#include "support/temporary_folder.h"
#include "transom/fine_tuning.h"
#include "work/train/tasks/task_data.h"

namespace transom {
namespace {

class MaskedPictures : public testing::Test {
 protected:
  void SetUp() override {
    for (int64_t number = 0; number < 8; ++number) {
      std::vector<uint8_t> values(3 * 12 * 10);
      for (size_t i = 0; i < values.size(); ++i)
        values[i] = static_cast<uint8_t>(i * static_cast<size_t>(number + 3) % 251);
      const std::filesystem::path folder = folder_ / (number % 2 ? "pictures" : "pictures/deeper");
      std::filesystem::create_directories(folder);
      write_file(folder / "note.txt", "no picture");
      write_png(folder / (std::to_string(number) + ".png"), {12, 10, 3, values});
    }
    write_file(folder_ / "config.json",
               R"({"model_type": "vit_mae", "architectures": ["ViTMAEForPreTraining"], "hidden_size": 8,
      "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 8, "image_size": 8, "patch_size": 4,
      "decoder_hidden_size": 8, "decoder_num_hidden_layers": 1, "decoder_num_attention_heads": 2,
      "decoder_intermediate_size": 8})");
  }
  TrainArguments arguments(std::vector<std::string> more) const {
    std::vector<std::string> flags{"--task",
                                   "masked-image-modeling",
                                   "--config_name",
                                   folder_.path() / "config.json",
                                   "--train_dir",
                                   folder_.path() / "pictures",
                                   "--output_dir",
                                   folder_.path() / "out",
                                   "--max_steps",
                                   "2",
                                   "--per_device_train_batch_size",
                                   "4",
                                   "--do_train",
                                   "--do_eval"};
    flags.insert(flags.end(), more.begin(), more.end());
    return parse_train_arguments(flags);
  }
  test::TemporaryFolder folder_;
  test::KeptLog log_;
};

TEST_F(MaskedPictures, AreReadAtAnyDepthAndSplit) {
  const TaskSetup task = prepare_task(arguments({"--train_val_split", "0.25"}));
  EXPECT_EQ(task.train->rows, 6);
  EXPECT_EQ(task.validation->rows, 2);
  EXPECT_EQ(task.validation->batch({0, 1}).arrays.at("pixel_values").shape, (std::vector<int64_t>{2, 3, 8, 8}));
}

TEST_F(MaskedPictures, LearningRatesAreOfRowsOfAnUpdate) {
  EXPECT_NEAR(prepare_task(arguments({})).training.learning_rate, 1e-3 * 4 / 256, 1e-12);
  EXPECT_NEAR(prepare_task(arguments({"--base_learning_rate", "0.128", "--gradient_accumulation_steps", "2"}))
                  .training.learning_rate,
              0.128 * 8 / 256, 1e-12);
  EXPECT_NEAR(prepare_task(arguments({"--learning_rate", "0.5"})).training.learning_rate, 0.5, 1e-12);
}

TEST_F(MaskedPictures, TrainAndEvaluateAndKeepWhatIsHidden) {
  const FineTuneResult result = fine_tune(arguments({"--mask_ratio", "0.5", "--norm_pix_loss", "false"}));
  const auto loss = std::find_if(result.evaluation.begin(), result.evaluation.end(),
                                 [](const auto& each) { return each.first == "eval_loss"; });
  ASSERT_NE(loss, result.evaluation.end());
  EXPECT_TRUE(std::isfinite(loss->second) && loss->second > 0) << loss->second;
  const std::string config = read_file(folder_ / "out" / "config.json");
  EXPECT_NE(config.find(R"("mask_ratio": 0.5)"), std::string::npos) << config;
  EXPECT_NE(config.find(R"("norm_pix_loss": false)"), std::string::npos) << config;
}

TEST_F(MaskedPictures, RefusesModelsThatMakeUpNothing) {
  write_file(folder_ / "config.json", R"({"model_type": "resnet", "architectures": ["ResNetModel"]})");
  const std::string found = test::message_of([&] { prepare_task(arguments({})); });
  EXPECT_NE(found.find("pretraining"), std::string::npos) << found;
}

// SimMIM: the batch says what is hidden, in squares of several patches.
class ToldPictures : public MaskedPictures {
 protected:
  void SetUp() override {
    MaskedPictures::SetUp();
    write_file(folder_ / "config.json", R"({"model_type": "vit", "architectures": ["ViTForMaskedImageModeling"],
      "hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 8, "image_size": 16,
      "patch_size": 2, "encoder_stride": 2})");
  }
};

TEST_F(ToldPictures, HideSquaresOfSeveralPatches) {
  TaskSetup task = prepare_task(arguments({"--mask_patch_size", "4", "--train_val_split", "0.25"}));
  EXPECT_EQ(task.training.learning_rate, TrainingArguments().learning_rate);  // run_mim's, not scaled
  const auto squares = [&](const Batch& batch, int64_t row) {                 // 4 x 4 squares of 2 x 2 patches
    const FloatRows& hidden = batch.arrays.at("bool_masked_pos");
    EXPECT_EQ(hidden.shape, (std::vector<int64_t>{std::ssize(batch.arrays.at("pixel_values").values) / 768, 64}));
    std::vector<float> found;
    for (int64_t square = 0; square < 16; ++square) {
      const auto at = [&](int64_t y, int64_t x) {
        return hidden.values[static_cast<size_t>(64 * row + (square / 4 * 2 + y) * 8 + square % 4 * 2 + x)];
      };
      found.push_back(at(0, 0));
      for (const float other : {at(0, 1), at(1, 0), at(1, 1)}) EXPECT_EQ(other, found.back());
    }
    EXPECT_EQ(std::count(found.begin(), found.end(), 1.F), 10);  // 0.6 of 16, rounded up
    EXPECT_EQ(std::count(found.begin(), found.end(), 0.F), 6);
    return found;
  };
  Batch first = task.train->batch({0, 1}), second = task.train->batch({0, 1});
  task.train->augment(first, 1);
  task.train->augment(second, 2);
  EXPECT_NE(squares(first, 0), squares(first, 1));
  EXPECT_NE(squares(first, 0), squares(second, 0));
  // An evaluation hides the same of a picture each time, in whatever batch it is.
  EXPECT_EQ(squares(task.validation->batch({0, 1}), 1), squares(task.validation->batch({1}), 0));
}

TEST_F(ToldPictures, TrainAndEvaluate) {
  const FineTuneResult result = fine_tune(arguments({"--mask_patch_size", "4", "--mask_ratio", "0.5"}));
  const auto loss = std::find_if(result.evaluation.begin(), result.evaluation.end(),
                                 [](const auto& each) { return each.first == "eval_loss"; });
  ASSERT_NE(loss, result.evaluation.end());
  EXPECT_TRUE(std::isfinite(loss->second) && loss->second > 0) << loss->second;
}

TEST_F(ToldPictures, OptionsOfTheOtherKindAndSizesThatDoNotDivideAreRefused) {
  const auto found = [&](std::vector<std::string> more) {
    return test::message_of([&] { prepare_task(arguments(std::move(more))); });
  };
  EXPECT_EQ(found({"--norm_pix_loss", "true"}), "--norm_pix_loss: is for models that draw themselves what is hidden");
  EXPECT_NE(found({"--mask_patch_size", "3"}).find("expected a multiple of the 2 pixels"), std::string::npos);
  EXPECT_NE(found({}).find("expected a divisor of 16 x 16, the size of pictures, found 32"), std::string::npos);
}

TEST_F(MaskedPictures, SizesOfHiddenSquaresAreForModelsThatAreTold) {
  EXPECT_EQ(test::message_of([&] {
              prepare_task(arguments({"--mask_patch_size", "4"}));
            }),
            "--mask_patch_size: is for models that are told what is hidden");
}

}  // namespace
}  // namespace transom
