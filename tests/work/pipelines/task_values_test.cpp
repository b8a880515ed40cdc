// SPDX-License-Identifier: Apache-2.0
// Every task by its name, with inputs, options and results as values.
#include <gtest/gtest.h>

#include <cmath>

#include "base/json/json.h"
#include "support/bitmap.h"
#include "support/message.h"
#include "support/word_models.h"
#include "transom/pipeline.h"
#include "work/pipelines/task_record.h"

namespace transom {
namespace {

class TaskValues : public testing::Test {
 protected:
  std::string classifier() {
    test::save_word_model(folder_, test::kWordBert, "BertForSequenceClassification");
    return folder_.string();
  }
  test::TemporaryFolder folder_;
};

TEST_F(TaskValues, OptionsAreCheckedByTheirNames) {
  const LoadedPipeline classify = pipeline("text-classification", classifier());
  const auto classes = std::get<std::vector<ClassScore>>(classify.run("w3 w4", {{"top_k", std::monostate()}}));
  ASSERT_EQ(classes.size(), 2u);
  EXPECT_GE(classes[0].score, classes[1].score);
  const auto message = [&](const TaskInput& input, const TaskOptions& options) {
    return test::message_of([&] { classify.run(input, options); });
  };
  EXPECT_NE(message("w3", {{"topk", int64_t{1}}}).find("did you mean 'top_k'?"), std::string::npos);
  EXPECT_EQ(message("w3", {{"top_k", "many"}}), "parameter top_k: expected a whole number, found '\"many\"'");
  EXPECT_EQ(message(SoundInput("a.wav"), {}), "expected a text, found a sound");
}

TEST_F(TaskValues, PairsAreTwoTexts) {
  const LoadedPipeline classify = pipeline("text-classification", classifier());
  const Json pair = parse_json(classify.run_json(R"({"text": "w3", "text_pair": "w4 w5"})"), "pair");
  const auto best = std::get<std::vector<ClassScore>>(classify.run(TextInput("w3", "w4 w5")));
  EXPECT_EQ(pair["score"].get<double>(), best[0].score);
  EXPECT_EQ(classify.run_all({"w3", TextInput("w3", "w4 w5")}).size(), 2u);
}

TEST_F(TaskValues, PicturesComeFromMemory) {
  const std::string file = test::bitmap(8, [](size_t i) {
    return std::array<uint8_t, 3>{static_cast<uint8_t>(3 * i), 9, 200};
  });
  write_file(folder_ / "a.bmp", file);
  const Json config{{"model_type", "resnet"}, {"architectures", {"ResNetModel"}},
                    {"embedding_size", 8},    {"hidden_sizes", {8}},
                    {"depths", {1}},          {"layer_type", "basic"}};
  Model::from_config(dump_json(config), {.seed = 3})->save_pretrained(folder_.string());
  write_file(folder_ / "preprocessor_config.json", R"({"image_processor_type": "ViTImageProcessor", "size": 8})");
  const LoadedPipeline features = pipeline("image-feature-extraction", folder_.string());
  const auto values = [&](PictureSource source) {
    return std::get<FeatureArray>(features.run(ImageInput(std::move(source)))).values;
  };
  const std::vector<float> expected = values((folder_ / "a.bmp").string());
  EXPECT_EQ(values(FileBytes{file}), expected);
  Picture picture{8, 8, 4, std::vector<uint8_t>()};
  auto& pixels = std::get<std::vector<uint8_t>>(picture.values);
  for (size_t y = 0; y < 8; ++y)
    for (size_t x = 0; x < 8; ++x)
      for (const size_t value : {3 * (8 * (7 - y) + x), size_t{9}, size_t{200}, size_t{0}})  // the file's rows go up
        pixels.push_back(static_cast<uint8_t>(value));
  EXPECT_EQ(values(picture), expected);
  pixels.pop_back();
  EXPECT_NE(test::message_of([&] { values(picture); }).find("8 x 8 pixels, found 255 values"), std::string::npos);
  picture.values = std::vector<uint16_t>(256);
  EXPECT_NE(test::message_of([&] { values(picture); }).find("expected 8 bits"), std::string::npos);
}

TEST(TaskRecords, AreListedByTheirNames) {
  std::string before;
  for (const TaskRecord* task : task_records()) {
    EXPECT_LT(before, task->name);
    before = task->name;
    EXPECT_EQ(find_task(task->name), task);
    if (!task->alias.empty()) {
      EXPECT_EQ(find_task(task->alias), task);
    }
    EXPECT_NE(task->load, nullptr) << task->name;
  }
  EXPECT_EQ(canonical_task("ner"), "token-classification");
  EXPECT_EQ(canonical_task("translation_en_to_fr"), "translation_en_to_fr");
  EXPECT_EQ(find_task("translation_en"), nullptr);
}

}  // namespace
}  // namespace transom
