// SPDX-License-Identifier: Apache-2.0
// transom_c.h: results are those of C++, errors have their numbers, and what is given is freed.
#include <gtest/gtest.h>

#include <string>
#include <thread>
#include <vector>

#include "base/json/json.h"
#include "support/word_models.h"
#include "transom/error.h"
#include "transom/pipeline.h"
#include "transom/transom_c.h"

#include "work/train/tiny_model.h"

namespace transom {
namespace {

// Takes over a text that a function gave.
std::string taken(char* text) {
  if (!text) return "NULL";
  std::string copy = text;
  transom_free(text);
  return copy;
}

class CPipeline : public testing::Test {
 protected:
  CPipeline() { test::save_word_model(folder_, test::kWordBert, "BertForSequenceClassification"); }
  ~CPipeline() override { transom_pipeline_free(pipeline_); }
  void load(const char* task, const char* options = nullptr) {
    ASSERT_EQ(transom_pipeline_load(task, folder_.string().c_str(), options, &pipeline_, &error_), TRANSOM_CODE_OK)
        << error_.message;
  }
  test::TemporaryFolder folder_;
  transom_pipeline* pipeline_ = nullptr;
  transom_failure error_{};
};

TEST_F(CPipeline, GivesTheJsonOfCpp) {
  load("text-classification");
  char* json = nullptr;
  ASSERT_EQ(transom_pipeline_run(pipeline_, "w1 w2 w3", R"({"top_k": 2})", &json, &error_), TRANSOM_CODE_OK);
  EXPECT_EQ(taken(json), pipeline("text-classification", folder_.string())("w1 w2 w3", R"({"top_k": 2})"));
  ASSERT_EQ(transom_pipeline_run_json(pipeline_, R"({"text": "w1", "text_pair": "w2"})", nullptr, &json, &error_),
            TRANSOM_CODE_OK)
      << error_.message;
  EXPECT_NE(taken(json).find("\"score\""), std::string::npos);
}

TEST_F(CPipeline, EmbedsTextsAsRows) {
  load("feature-extraction", R"({"batch_size": 2})");
  const char* texts[] = {"w1 w2", "w3", "w1 w2"};
  float* vectors = nullptr;
  size_t width = 0;
  ASSERT_EQ(transom_embed(pipeline_, texts, 3, &vectors, &width, &error_), TRANSOM_CODE_OK) << error_.message;
  EXPECT_EQ(width, 8u);
  for (size_t i = 0; i < width; ++i) EXPECT_EQ(vectors[i], vectors[2 * width + i]);
  EXPECT_NE(vectors[0], vectors[width]);
  transom_free(vectors);
  ASSERT_EQ(transom_embed(pipeline_, texts, 0, &vectors, &width, &error_), TRANSOM_CODE_OK);
  EXPECT_EQ(width, 0u);
  transom_free(vectors);
}

TEST_F(CPipeline, AnswersSeveralThreads) {
  load("text-classification");
  const std::string expected = pipeline("text-classification", folder_.string())("w1 w2");
  std::vector<std::thread> threads;
  std::vector<std::string> answers(4);
  for (std::string& answer : answers)
    threads.emplace_back([&] {
      char* json = nullptr;
      transom_pipeline_run(pipeline_, "w1 w2", nullptr, &json, nullptr);
      answer = taken(json);
    });
  for (std::thread& thread : threads) thread.join();
  for (const std::string& answer : answers) EXPECT_EQ(answer, expected);
}

TEST_F(CPipeline, ErrorsHaveNumbersAndALine) {
  const auto message = [&](transom_code expected, transom_code found) {
    EXPECT_EQ(found, expected);
    EXPECT_EQ(error_.status, expected);
    return std::string(error_.message);
  };
  EXPECT_NE(
      message(TRANSOM_CODE_INPUT, transom_pipeline_load("fill-mask", "nowhere/at/all", nullptr, &pipeline_, &error_))
          .find("nowhere/at/all"),
      std::string::npos);
  EXPECT_EQ(pipeline_, nullptr);
  const std::string path = folder_.string();
  EXPECT_EQ(message(TRANSOM_CODE_USAGE, transom_pipeline_load(nullptr, path.c_str(), nullptr, &pipeline_, &error_)),
            "task: expected a text, found NULL");
  EXPECT_EQ(message(TRANSOM_CODE_USAGE,
                    transom_pipeline_load("fill-mask", path.c_str(), R"({"dtyp": "x"})", &pipeline_, &error_)),
            "options: 'dtyp' is not known, did you mean 'dtype'?");
  EXPECT_EQ(message(TRANSOM_CODE_USAGE,
                    transom_pipeline_load("fill-mask", path.c_str(), R"({"dtype": 1})", &pipeline_, &error_)),
            "options: dtype: expected a string, found '1'");
  char* json = nullptr;
  EXPECT_EQ(message(TRANSOM_CODE_USAGE, transom_pipeline_run(nullptr, "w1", nullptr, &json, &error_)),
            "pipeline: expected a handle of transom_pipeline_load, found NULL");
  load("text-classification");
  EXPECT_NE(message(TRANSOM_CODE_INPUT, transom_pipeline_run(pipeline_, "w1", R"({"top_kk": 1})", &json, &error_))
                .find("top_kk"),
            std::string::npos);
  EXPECT_EQ(json, nullptr);
  EXPECT_EQ(transom_pipeline_run(pipeline_, "w1", "no JSON", &json, nullptr), TRANSOM_CODE_INPUT);
  for (int32_t kind = 0; kind <= TRANSOM_CODE_INTERNAL; ++kind)
    EXPECT_STRNE(transom_code_name(static_cast<transom_code>(kind)), "unknown");
  for (const ErrorKind kind : {ErrorKind::kUsage, ErrorKind::kDeviceLost, ErrorKind::kInternal})
    EXPECT_EQ(transom_code_name(static_cast<transom_code>(static_cast<int>(kind) + 1)), name_of(kind));
}

// The text that came in pieces, until `left` pieces were told.
struct Pieces {
  std::string text;
  int left = 1000;
};

int32_t collect(void* user, const char* text, size_t bytes) {
  auto& pieces = *static_cast<Pieces*>(user);
  pieces.text.append(text, bytes);
  return --pieces.left <= 0;
}

TEST(CGenerator, StreamsWhatItGivesAndStops) {
  const test::TemporaryFolder folder;
  test::save_word_model(folder, test::kWordGpt2, "GPT2LMHeadModel");
  transom_failure error{};
  transom_generator* generator = nullptr;
  ASSERT_EQ(transom_generator_load(folder.string().c_str(), nullptr, &generator, &error), TRANSOM_CODE_OK)
      << error.message;
  const char* config = R"({"max_new_tokens": 6, "eos_token_id": 99})";
  char* text = nullptr;
  Pieces pieces;
  ASSERT_EQ(transom_generate(generator, "w1 w2", config, collect, &pieces, &text, &error), TRANSOM_CODE_OK)
      << error.message;
  const std::string whole = taken(text);
  EXPECT_FALSE(whole.empty());
  EXPECT_NE(pieces.text.find(whole), std::string::npos) << pieces.text;
  Pieces two{.text = "", .left = 2};
  EXPECT_EQ(transom_generate(generator, "w1 w2", config, collect, &two, &text, &error), TRANSOM_CODE_INTERRUPTED);
  EXPECT_EQ(text, nullptr);
  EXPECT_EQ(transom_generate(generator, "w1", R"({"num_beams": 2})", collect, &two, &text, &error), TRANSOM_CODE_USAGE);
  EXPECT_NE(transom_chat(generator, R"([{"role": "user", "content": "w1"}])", config, nullptr, nullptr, &text, &error),
            TRANSOM_CODE_OK);  // it has no template
  transom_generator_free(generator);
}

int32_t stop_after_two(void* user, const transom_step* step) {
  ++*static_cast<int*>(user);
  EXPECT_EQ(step->max_steps, 4);
  return step->step >= 2;
}

TEST(CTraining, TrainsAndStops) {
  const TinyModel model;
  const std::string rows =
      "text,label\nann went to rome,trip\nthe tower is old,fact\nann went,trip\nrome is old,fact\n";
  Json arguments{{"model_name_or_path", model.path().string()},
                 {"train_file", model.write("train.csv", rows)},
                 {"output_dir", (model.path() / "out").string()},
                 {"per_device_train_batch_size", 1},
                 {"num_train_epochs", 1}};
  transom_failure error{};
  char* metrics = nullptr;
  ASSERT_EQ(transom_train(dump_json(arguments).c_str(), nullptr, nullptr, &metrics, &error), TRANSOM_CODE_OK)
      << error.message;
  EXPECT_NE(taken(metrics).find("train_loss"), std::string::npos);
  arguments["output_dir"] = (model.path() / "stopped").string();
  int updates = 0;
  EXPECT_EQ(transom_train(dump_json(arguments).c_str(), stop_after_two, &updates, &metrics, &error),
            TRANSOM_CODE_INTERRUPTED);
  EXPECT_EQ(updates, 2);
  EXPECT_NE(std::string(error.message).find("checkpoint-2"), std::string::npos) << error.message;
}

}  // namespace
}  // namespace transom
