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

TEST_F(MaskedPictures, RefusesModelsThatAreToldWhatIsHidden) {
  write_file(folder_ / "config.json", R"({"model_type": "vit", "architectures": ["ViTForMaskedImageModeling"],
    "hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 8, "image_size": 8,
    "patch_size": 4, "encoder_stride": 4})");
  const std::string found = test::message_of([&] { prepare_task(arguments({})); });
  EXPECT_NE(found.find("pretraining"), std::string::npos) << found;
}

}  // namespace
}  // namespace transom
