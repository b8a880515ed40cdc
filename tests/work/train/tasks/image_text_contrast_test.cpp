// SPDX-License-Identifier: Apache-2.0
// From pictures and captions to a CLIP that finds the one for the other.
#include <gtest/gtest.h>

#include <cmath>

#include "base/files/files.h"
#include "base/json/json.h"
#include "inputs/data/text/padding.h"
#include "support/bitmap.h"
#include "support/temporary_folder.h"
#include "transom/gradients.h"
#include "transom/ops.h"
#include "transom/pipeline.h"
#include "work/train/loop/model_inputs.h"
#include "work/train/tasks/task_data.h"

namespace transom {
namespace {

constexpr size_t kPictureSide = 8;

struct Color {
  const char* name;
  uint8_t red, green, blue;
};
constexpr Color kColors[] = {
    {"red", 230, 20, 30}, {"green", 20, 230, 30}, {"blue", 30, 20, 230}, {"white", 240, 250, 245}};

std::string bmp(const Color& color) {
  return test::bitmap(kPictureSide, [&](size_t) { return std::array<uint8_t, 3>{color.red, color.green, color.blue}; });
}

class ContrastiveTraining : public testing::Test {
 protected:
  void SetUp() override {
    std::string rows = "image_path,caption\n";
    for (const Color& color : kColors) {
      folder_.write(std::string(color.name) + ".bmp", bmp(color));
      rows += std::string(color.name) + ".bmp,a " + color.name + " picture\n";
    }
    folder_.write("rows.csv", rows);
    Model::from_config(R"({"model_type": "clip", "architectures": ["CLIPModel"], "projection_dim": 8,
      "text_config": {"vocab_size": 9, "hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 1,
        "num_attention_heads": 2, "max_position_embeddings": 6, "bos_token_id": 0, "eos_token_id": 8, "pad_token_id": 1},
      "vision_config": {"hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2,
        "image_size": 8, "patch_size": 4}})")
        ->save_pretrained(path());
    folder_.write("tokenizer.json", R"({"version": "1.0", "added_tokens": [
      {"id": 0, "content": "<s>", "special": true}, {"id": 8, "content": "</s>", "special": true}],
      "pre_tokenizer": {"type": "WhitespaceSplit"}, "model": {"type": "WordLevel", "unk_token": "<unk>",
        "vocab": {"<s>": 0, "<unk>": 1, "a": 2, "red": 3, "green": 4, "blue": 5, "white": 6, "picture": 7, "</s>": 8}},
      "post_processor": {"type": "TemplateProcessing",
        "single": [{"SpecialToken": {"id": "<s>", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}},
                   {"SpecialToken": {"id": "</s>", "type_id": 0}}],
        "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 1}}],
        "special_tokens": {"<s>": {"id": "<s>", "ids": [0], "tokens": ["<s>"]},
                           "</s>": {"id": "</s>", "ids": [8], "tokens": ["</s>"]}}}})");
    folder_.write("tokenizer_config.json",
                  R"({"tokenizer_class": "CLIPTokenizer", "bos_token": "<s>", "eos_token": "</s>",
      "unk_token": "<unk>", "pad_token": "<unk>"})");
    folder_.write("preprocessor_config.json", R"({"image_processor_type": "CLIPImageProcessor",
      "size": {"shortest_edge": 8}, "crop_size": {"height": 8, "width": 8}})");
  }
  std::string path() const { return folder_.path().string(); }
  std::string output() const { return (folder_.path() / "out").string(); }
  TrainArguments arguments(std::vector<std::string> more) const {
    std::vector<std::string> flags = {"--model_name_or_path",
                                      path(),
                                      "--train_file",
                                      path() + "/rows.csv",
                                      "--validation_file",
                                      path() + "/rows.csv",
                                      "--output_dir",
                                      output(),
                                      "--per_device_train_batch_size",
                                      "4",
                                      "--max_seq_length",
                                      "5"};
    flags.insert(flags.end(), more.begin(), more.end());
    return parse_train_arguments(flags);
  }
  test::TemporaryFolder folder_;
};

double value_of(const Metrics& metrics, const std::string& wanted) {
  for (const auto& [name, value] : metrics)
    if (name == wanted) return value;
  return std::nan("");
}

// The mean of both cross entropies, from the similarities that the model gives beside it.
TEST_F(ContrastiveTraining, TheLossIsThatOfBothDirections) {
  TaskSetup task = prepare_task(arguments({}));
  const NamedTensors inputs = to_inputs(task.train->batch({0, 1, 2, 3}), *task.model);
  EXPECT_EQ(inputs.at("input_ids").shape(), (Shape{4, 5}));
  ForwardContext context;
  context.return_loss = true;
  const NamedTensors outputs = task.model->forward(inputs, context);
  const std::vector<float> logits = outputs.at("logits_per_image").to_vector<float>();
  double expected = 0;
  for (size_t i = 0; i < 4; ++i) {
    double row = 0, column = 0;
    for (size_t j = 0; j < 4; ++j) {
      row += std::exp(static_cast<double>(logits[4 * i + j]));
      column += std::exp(static_cast<double>(logits[4 * j + i]));
    }
    expected += (std::log(row) + std::log(column) - 2 * static_cast<double>(logits[5 * i])) / 8;
  }
  EXPECT_NEAR(outputs.at("loss").item<float>(), expected, 1e-5 * expected);

  // The scale of the logits is trained too.
  for (const auto& parameter : task.model->parameters()) {
    if (parameter->name != "logit_scale") continue;
    const auto slope = gradients(outputs.at("loss"), {parameter->value})[0].item<float>();
    const float scale = parameter->value.item<float>();
    const auto loss_at = [&](float value) {
      parameter->value = Tensor::from(std::vector<float>{value}, {});
      return task.model->forward(inputs, context).at("loss").item<float>();
    };
    const float step = 0.02f, difference = (loss_at(scale + step) - loss_at(scale - step)) / (2 * step);
    EXPECT_NEAR(slope, difference, 0.02f * std::abs(difference) + 1e-4f);
    EXPECT_NE(slope, 0);
    return;
  }
  FAIL() << "the model has no logit_scale";
}

TEST_F(ContrastiveTraining, LearnsWhichCaptionIsWhosePicture) {
  const TrainArguments given = arguments({"--num_train_epochs", "60", "--learning_rate", "5e-3"});
  TaskSetup task = prepare_task(given);
  Trainer trainer(std::move(task.model), given.training);
  configure_trainer(trainer, task);
  trainer.train();
  EXPECT_LT(value_of(trainer.evaluate(), "eval_loss"), 0.1);  // log 4 by chance
  trainer.save_model();
  for (const char* name : {"model.safetensors", "config.json", "tokenizer.json", "preprocessor_config.json"})
    EXPECT_TRUE(fs::exists(fs::path(output()) / name)) << name;

  const LoadedPipeline zero_shot = pipeline("zero-shot-image-classification", output());
  const std::string all =
      R"({"candidate_labels": ["white", "blue", "green", "red"], "hypothesis_template": "a {} picture"})";
  for (const Color& color : kColors) {
    const Json answer = parse_json(zero_shot(path() + "/" + color.name + ".bmp", all), "the pipeline's answer");
    ASSERT_EQ(answer.size(), 4u);
    EXPECT_EQ(answer[0]["label"], color.name);
  }
}

TEST_F(ContrastiveTraining, AFrozenSideStaysAsItIs) {
  const TrainArguments given =
      arguments({"--max_steps", "2", "--learning_rate", "1e-2", "--freeze_vision_model", "true"});
  TaskSetup task = prepare_task(given);
  Trainer trainer(std::move(task.model), given.training);
  configure_trainer(trainer, task);
  trainer.train();
  const auto before = Model::from_pretrained(path());
  for (size_t i = 0; i < before->parameters().size(); ++i) {
    const Parameter &was = *before->parameters()[i], &is = *trainer.model().parameters()[i];
    ASSERT_EQ(was.name, is.name);
    const bool changed = was.value.to_bytes() != is.value.to_bytes();
    if (was.name.starts_with("vision_model.")) {
      EXPECT_FALSE(changed) << was.name;
    } else if (!was.name.starts_with("text_model.")) {  // the projections and the scale
      EXPECT_TRUE(changed) << was.name;
    }
  }
}

}  // namespace
}  // namespace transom
