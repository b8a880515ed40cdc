// SPDX-License-Identifier: Apache-2.0
// Chats with pictures: which pictures a row has and where, what is refused, and that a small model learns to answer.
#include "work/train/tasks/chats/chat_pictures.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <array>
#include <filesystem>

#include "base/files/files.h"
#include "base/text/base64.h"
#include "inputs/images/write_png.h"
#include "support/golden.h"
#include "support/kept_log.h"
#include "support/message.h"
#include "support/temporary_folder.h"
#include "transom/fine_tuning.h"
#include "transom/media.h"
#include "work/train/tasks/chats/picture_batches.h"

namespace transom {
namespace {

std::string placed(const char* messages, std::vector<std::string> of_row) {
  Json parsed = parse_json(messages, "a row");
  const std::vector<std::string> pictures = place_pictures(parsed, std::move(of_row), "row 1");
  return parsed.dump() + fmt::format(" {}", fmt::join(pictures, " "));
}

TEST(ChatPictures, StandBeforeTheFirstTextOfTheUser) {
  EXPECT_EQ(placed(R"([{"role":"system","content":"s"},{"role":"user","content":"u"},{"role":"user","content":"v"}])",
                   {"a", "b"}),
            R"([{"role":"system","content":"s"},{"role":"user","content":[{"type":"image"},{"type":"image"},)"
            R"({"type":"text","text":"u"}]},{"role":"user","content":"v"}] a b)");
}

TEST(ChatPictures, StandWhereTextsOrPartsSay) {
  EXPECT_EQ(placed(R"([{"role":"user","content":"<image>\nx <image>"}])", {"a", "b"}),
            R"([{"role":"user","content":[{"type":"image"},{"type":"text","text":"\nx "},{"type":"image"}]}] a b)");
  EXPECT_EQ(placed(R"([{"role":"user","content":[{"type":"image","path":"own.png"},{"type":"image"},)"
                   R"({"type":"image_url","image_url":{"url":"data:x"}}]}])",
                   {"a"}),
            R"([{"role":"user","content":[{"type":"image"},{"type":"image"},{"type":"image"}]}] own.png a data:x)");
}

TEST(ChatPictures, AreAsManyAsTheirPlaces) {
  const auto refusal = [](const char* messages, std::vector<std::string> of_row) {
    return test::message_of([&] { placed(messages, std::move(of_row)); });
  };
  EXPECT_NE(refusal(R"([{"role":"user","content":[{"type":"image"}]}])", {}).find("row 1: 1 places for pictures"),
            std::string::npos);
  EXPECT_NE(refusal(R"([{"role":"user","content":"<image> <image>"}])", {"a"}).find("and 1 picture"),
            std::string::npos);
}

TEST(ChatPictures, OfABatchLieOneBehindTheOther) {
  using Pixels = ImageProcessor::Pixels;
  Batch whole;
  add_pictures(whole, std::vector<Pixels>{{1, 2, std::vector<float>(6, 1)}, {1, 2, std::vector<float>(6, 2)}});
  EXPECT_EQ(whole.arrays.at("pixel_values").shape, (std::vector<int64_t>{2, 3, 1, 2}));
  const std::vector<Pixels> others{{1, 2, std::vector<float>(6, 1)}, {2, 1, std::vector<float>(6, 2)}};
  EXPECT_NE(test::message_of([&] { add_pictures(whole, others); }).find("expected one size"), std::string::npos);

  Pixels one{.height = 1, .width = 1, .values = std::vector<float>(3, 1), .parts = 1};
  Pixels three{.height = 1, .width = 1, .values = std::vector<float>(9, 2), .parts = 3};
  Batch tiles;
  add_pictures(tiles, std::vector<Pixels>{one, three});
  EXPECT_EQ(tiles.arrays.at("pixel_values").shape, (std::vector<int64_t>{1, 4, 3, 1, 1}));
  one.beside = {{"image_sizes", {5, 6}}}, three.beside = {{"image_sizes", {7, 8}}};
  Batch grids;
  add_pictures(grids, std::vector<Pixels>{one, three});
  EXPECT_EQ(grids.arrays.at("pixel_values").shape, (std::vector<int64_t>{2, 3, 3, 1, 1}));
  EXPECT_EQ(grids.arrays.at("pixel_values").values[3], 0.0f);  // a part that the first does not have
  EXPECT_EQ(grids.arrays.at("image_sizes").values, (std::vector<float>{5, 6, 7, 8}));

  Batch patches;
  Pixels few{.values = std::vector<float>(8, 1), .patches = 2}, many{.values = std::vector<float>(16, 1), .patches = 4};
  few.beside = {{"image_grid_thw", {1, 1, 2}}}, many.beside = {{"image_grid_thw", {1, 2, 2}}};
  add_pictures(patches, std::vector<Pixels>{few, many});
  EXPECT_EQ(patches.arrays.at("pixel_values").shape, (std::vector<int64_t>{6, 4}));
  EXPECT_EQ(patches.arrays.at("image_grid_thw").shape, (std::vector<int64_t>{2, 3}));
}

TEST(ChatPictures, BesideTokensAreToldWhichTokensSeeThem) {
  using Pixels = ImageProcessor::Pixels;
  const auto picture = [](float value, int64_t tiles) {
    Pixels made{.height = 1, .width = 1, .values = std::vector<float>(6, value), .parts = 2};
    made.rows = 1, made.columns = tiles, made.grouped = true;
    made.beside = {{"aspect_ratio_ids", {tiles}}, {"aspect_ratio_mask", {1, tiles - 1}}};
    return made;
  };
  Batch batch;
  batch.sequences["input_ids"] = {2, 4, {7, 99, 99, 5, 99, 6, 7, 0}};
  const std::vector<std::vector<Pixels>> rows{{picture(1, 1), picture(2, 2)}, {picture(3, 2)}};
  add_grouped_pictures(batch, rows, 99);
  EXPECT_EQ(batch.arrays.at("pixel_values").shape, (std::vector<int64_t>{2, 2, 2, 3, 1, 1}));
  EXPECT_EQ(batch.arrays.at("pixel_values").values[18], 0.0f);  // a picture that the second row does not have
  EXPECT_EQ(batch.arrays.at("aspect_ratio_ids").values, (std::vector<float>{1, 2, 2, 0}));
  EXPECT_EQ(batch.arrays.at("aspect_ratio_mask").values, (std::vector<float>{1, 0, 1, 1, 1, 1, 1, 0}));
  const FloatRows& seen = batch.arrays.at("cross_attention_mask");
  EXPECT_EQ(seen.shape, (std::vector<int64_t>{2, 4, 2, 2}));
  EXPECT_EQ(seen.values, (std::vector<float>{0, 0, 0, 0, 1, 0, 0, 0, 1, 0, 1, 1, 1, 0, 1, 1,  // side by side
                                             1, 1, 0, 0, 1, 1, 0, 0, 1, 1, 0, 0, 1, 1, 0, 0}));
  batch.sequences["input_ids"].values[1] = 5;
  EXPECT_NE(test::message_of([&] { add_grouped_pictures(batch, rows, 99); }).find("1 places for pictures"),
            std::string::npos);
}

// Ten pictures of one colour each, in files or in the rows themselves.
class ChatsWithPictures : public testing::Test {
 protected:
  static constexpr std::array<const char*, 10> kAnswers = {"red",  "green", "blue", "grey", "pink",
                                                           "cyan", "white", "gold", "lime", "none"};
  void SetUp() override {
    std::string rows;
    for (size_t i = 0; i < kAnswers.size(); ++i) {
      std::vector<uint8_t> values;
      for (size_t pixel = 0; pixel < 32 * 32; ++pixel)
        for (size_t c = 0; c < 3; ++c) values.push_back(static_cast<uint8_t>((i * (c + 3) * 37 + 40 * c) % 256));
      const std::string file = fmt::format("{}.png", i);
      write_png(work_.path() / file, {32, 32, 3, values});
      std::string name = file;
      if (i % 2 == 1) name = "data:image/png;base64," + to_base64(read_file(work_.path() / file));
      rows += fmt::format(R"({{"image": "{}", "messages": [{{"role": "user", "content": "Colour?"}}, )"
                          R"({{"role": "assistant", "content": "{}"}}]}})"
                          "\n",
                          name, kAnswers[i]);
    }
    write_file(work_.path() / "rows.jsonl", rows);
  }
  std::string run(std::vector<std::string> flags, const std::string& model = "llava") {
    flags.insert(flags.end(),
                 {"--task", "sft", "--model_name_or_path", (test::golden_folder() / model / "model").string(),
                  "--train_file", (work_.path() / "rows.jsonl").string(), "--output_dir",
                  (work_.path() / "out").string(), "--save_strategy", "no", "--overwrite_output_dir"});
    const test::KeptLog log;
    return test::message_of([&] { fine_tune(parse_train_arguments(flags)); });
  }
  Json last(const char* name) const {
    Json value;
    const Json state = read_json(work_.path() / "out" / "trainer_state.json");
    for (const Json& record : state["log_history"])
      if (record.contains(name)) value = record[name];
    return value;
  }
  test::TemporaryFolder work_;
};

TEST_F(ChatsWithPictures, AreLearntByHeart) {
  ASSERT_EQ(run({"--assistant_only_loss", "--per_device_train_batch_size", "10", "--max_steps", "80", "--learning_rate",
                 "0.01", "--logging_steps", "10"}),
            "");
  EXPECT_EQ(last("mean_token_accuracy"), 1.0);
  EXPECT_LT(last("loss").get<double>(), 0.1);
  EXPECT_TRUE(std::filesystem::exists(work_.path() / "out" / "processor_config.json"));
}

TEST_F(ChatsWithPictures, TrainAdaptersAlone) {
  ASSERT_EQ(run({"--assistant_only_loss", "--per_device_train_batch_size", "10", "--max_steps", "12", "--learning_rate",
                 "0.02", "--logging_steps", "1", "--use_peft", "--lora_target_modules", "all-linear", "--lora_r", "8"}),
            "");
  const Json log = read_json(work_.path() / "out" / "trainer_state.json")["log_history"];
  EXPECT_LT(last("loss").get<double>(), 0.8 * log[0]["loss"].get<double>());
}

TEST_F(ChatsWithPictures, WhatIsNotOfferedIsRefused) {
  const auto says = [&](std::vector<std::string> flags, const char* text) {
    flags.insert(flags.end(), {"--max_steps", "1"});
    const std::string message = run(std::move(flags));
    EXPECT_NE(message.find(text), std::string::npos) << message;
  };
  says({"--packing"}, "--packing: not with pictures");
  says({"--padding_free"}, "--padding_free: not with pictures");
  says({"--truncation_mode", "keep_end"}, "keep_end: not with pictures");
  says({"--max_length", "10"}, "a picture reaches beyond max_length 10");
  write_file(
      work_.path() / "rows.jsonl",
      R"({"image": "no.png", "messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]})");
  says({}, "there is no file 'no.png'");
  write_file(
      work_.path() / "rows.jsonl",
      R"({"image": "https://x.org/no.png", "messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]})");
  says({}, "pictures are not fetched");
}

}  // namespace
}  // namespace transom
