// SPDX-License-Identifier: Apache-2.0
// From a folder of pictures to a model that draws such.
#include <gtest/gtest.h>

#include <cmath>

#include "base/files/files.h"
#include "base/json/json.h"
#include "support/bitmap.h"
#include "support/message.h"
#include "support/temporary_folder.h"
#include "transom/error.h"
#include "transom/ops.h"
#include "work/pipelines/pipeline.h"
#include "work/train/loop/model_inputs.h"
#include "work/train/step/objective.h"
#include "work/train/tasks/diffusion/denoising_objective.h"
#include "work/train/tasks/diffusion/training_noise.h"
#include "work/train/tasks/task_data.h"

namespace transom {
namespace {

constexpr const char* kSmallUNet = R"({"_class_name": "UNet2DModel", "sample_size": 8, "in_channels": 1,
  "out_channels": 1, "block_out_channels": [4], "layers_per_block": 1, "norm_num_groups": 2,
  "add_attention": false, "down_block_types": ["DownBlock2D"], "up_block_types": ["UpBlock2D"]})";

class UnconditionalImages : public testing::Test {
 protected:
  void SetUp() override {
    fs::create_directories(folder_ / "pictures" / "deeper");
    for (size_t i = 0; i < 6; ++i)
      write_file(folder_ / "pictures" / (i % 2 == 0 ? "" : "deeper") / (std::to_string(i) + ".bmp"),
                 test::bitmap(16, [&](size_t place) {
                   const auto level = static_cast<uint8_t>(place % 16 < 8 ? 255 : 10 * i);
                   return std::array<uint8_t, 3>{level, level, level};
                 }));
    write_file(folder_ / "unet.json", kSmallUNet);
  }
  TrainArguments arguments(const std::string& model, const std::string& name,
                           const std::vector<std::string>& more = {}) const {
    const std::string pictures = (folder_ / "pictures").string(), out = (folder_ / "out").string();
    std::vector<std::string> flags{"--task",
                                   "unconditional-image-generation",
                                   model,
                                   name,
                                   "--train_dir",
                                   pictures,
                                   "--validation_dir",
                                   pictures,
                                   "--output_dir",
                                   out,
                                   "--do_train",
                                   "true",
                                   "--do_eval",
                                   "true",
                                   "--max_steps",
                                   "2",
                                   "--per_device_train_batch_size",
                                   "3",
                                   "--learning_rate",
                                   "1e-2",
                                   "--logging_steps",
                                   "1",
                                   "--report_to",
                                   "none"};
    flags.insert(flags.end(), more.begin(), more.end());
    TrainArguments made = parse_train_arguments(flags);
    made.training.resolve();
    return made;
  }
  test::TemporaryFolder folder_;
};

TEST_F(UnconditionalImages, APictureGetsTheNoiseOfItsTimestep) {
  const TaskSetup task = prepare_task(arguments("--config_name", (folder_ / "unet.json").string()));
  ASSERT_EQ(task.train->rows, 6);
  const auto drawn = [&](uint64_t draw) {
    Batch batch = task.train->batch({0, 5});
    task.train->augment(batch, draw);
    return batch;
  };
  const Batch batch = drawn(3);
  EXPECT_EQ(batch.arrays.at(kNoise).values, drawn(3).arrays.at(kNoise).values);
  EXPECT_NE(batch.arrays.at(kNoise).values, drawn(4).arrays.at(kNoise).values);
  EXPECT_EQ(batch.arrays.at(kCleanSample).shape, (std::vector<int64_t>{2, 1, 8, 8}));
  // The left half of each picture is white: 1.
  for (size_t row = 0; row < 2; ++row) {
    double kept = 1;
    const int64_t t = batch.numbers.at(kTimestep)[row];
    ASSERT_GE(t, 0);
    ASSERT_LT(t, 1000);
    for (int64_t i = 0; i <= t; ++i) kept *= 1 - (0.0001 + (0.02 - 0.0001) * static_cast<double>(i) / 999);
    EXPECT_EQ(batch.arrays.at(kCleanSample).values[row * 64], 1);
    EXPECT_NEAR(batch.arrays.at(kKept).values[row], std::sqrt(kept), 1e-6);
    EXPECT_NEAR(batch.arrays.at(kAdded).values[row], std::sqrt(1 - kept), 1e-6);
  }
}

TEST_F(UnconditionalImages, TheLossIsTheMeanSquareOfTheNoiseThatIsMissed) {
  const TaskSetup task = prepare_task(arguments("--config_name", (folder_ / "unet.json").string()));
  NamedTensors inputs = to_inputs(task.validation->batch({0, 1, 2}), *task.model);
  ForwardContext context;
  const LossPass pass{.model = *task.model, .context = context};
  const auto loss = static_cast<double>(task.objective->loss(pass, inputs, nullptr).to_vector<float>().at(0));
  const Tensor seen = inputs.at(kCleanSample) * inputs.at(kKept) + inputs.at(kNoise) * inputs.at(kAdded);
  const std::vector<float> said =
      task.model->forward({{"sample", seen}, {kTimestep, inputs.at(kTimestep)}}).at("sample").to_vector<float>();
  const std::vector<float> noise = inputs.at(kNoise).to_vector<float>();
  double sum = 0;
  for (size_t i = 0; i < noise.size(); ++i) sum += std::pow(static_cast<double>(said[i]) - noise[i], 2);
  EXPECT_NEAR(loss, sum / static_cast<double>(noise.size()), 1e-5);
}

TEST_F(UnconditionalImages, WhatIsSavedDrawsAndIsTrainedFurther) {
  TaskSetup task = prepare_task(arguments("--config_name", (folder_ / "unet.json").string()));
  Trainer trainer(std::move(task.model), task.training);
  configure_trainer(trainer, task);
  trainer.train();
  trainer.save_model();
  const fs::path out = folder_ / "out";
  EXPECT_EQ(read_json(out / "model_index.json")["_class_name"], "DDPMPipeline");
  EXPECT_EQ(read_file(out / "unet" / "diffusion_pytorch_model.safetensors"), read_file(out / "model.safetensors"));
  const auto pipeline = make_pipeline("text-to-image", out.string());
  TaskOptions options;
  options.set("num_inference_steps", int64_t{2});
  options.set("seed", int64_t{1});
  const auto results = run_pipeline(*pipeline, {TextInput("")}, options);
  EXPECT_EQ(std::get<std::vector<Picture>>(results.at(0)).at(0).width, 8);
  EXPECT_EQ(prepare_task(arguments("--model_name_or_path", out.string())).train->rows, 6);
  const auto refused = [&](const std::string& flag, const std::string& value) {
    return test::message_of([&] { prepare_task(arguments("--model_name_or_path", out.string(), {flag, value})); });
  };
  EXPECT_NE(refused("--ddpm_beta_schedule", "squaredcos_cap_v2").find("scheduler_config.json has linear"),
            std::string::npos);
  EXPECT_NE(refused("--ddpm_num_steps", "50").find("scheduler_config.json has 1000"), std::string::npos);
  EXPECT_EQ(refused("--ddpm_num_steps", "1000"), "");
}

TEST_F(UnconditionalImages, RefusesWhatItCannotLearn) {
  const auto refused = [&](const std::string& field, const std::string& value) {
    Json config = parse_json(kSmallUNet, "test");
    config[field] = parse_json(value, "test");
    write_file(folder_ / "unet.json", dump_json(config));
    fs::remove_all(folder_ / "out");
    return test::message_of([&] { prepare_task(arguments("--config_name", (folder_ / "unet.json").string())); });
  };
  EXPECT_NE(refused("in_channels", "2").find("1 channel or 3"), std::string::npos);
  EXPECT_NE(refused("num_class_embeds", "4").find("no classes"), std::string::npos);
  EXPECT_NE(refused("sample_size", "100000").find("sample_size"), std::string::npos);
}

}  // namespace
}  // namespace transom
