// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "base/json/json.h"
#include "support/message.h"
#include "work/train/tasks/task_data.h"
#include "work/train/tiny_model.h"

namespace transom {
namespace {

constexpr const char* kQuestions =
    R"({"id": "q1", "question": " Where is Ann?", "context": "Ann is in the old tower", "answers": {"text": ["old tower"], "answer_start": [14]}}
{"id": "q2", "question": "Who?", "context": "Rome", "answers": {"text": [], "answer_start": []}})";

// [CLS] where is ann [UNK] [SEP] leaves room for 3 of the 6 tokens of the context.
std::vector<std::string> windowed(const std::string& name, const std::string& file) {
  return {name, file, "--max_seq_length", "10", "--doc_stride", "1"};
}

TEST(QuestionAnswering, CutsLongContextsAndFindsTheAnswerInEachWindow) {
  const TinyModel model;
  const TaskSetup setup =
      prepare_task(model.arguments(windowed("--train_file", model.write("train.jsonl", kQuestions))));
  ASSERT_EQ(setup.train->rows, 4);  // three windows of the first question, one of the second
  const Batch batch = setup.train->batch({0, 1, 2, 3});
  const PaddedRows& ids = batch.sequences.at("input_ids");
  EXPECT_EQ(ids.length, 10);  // padded to max_seq_length, as run_qa does unless it is told otherwise
  constexpr int64_t kUnknown = 1, kIn = 16;
  const std::vector<int64_t> question = {kCls, kWhere, kIs, kAnn, kUnknown, kSep};
  const auto window = [&](int64_t row) {
    return std::vector<int64_t>(ids.values.begin() + row * 10, ids.values.begin() + (row + 1) * 10);
  };
  const auto with = [&](std::vector<int64_t> context) {
    std::vector<int64_t> all = question;
    all.insert(all.end(), context.begin(), context.end());
    return all;
  };
  EXPECT_EQ(window(0), with({kAnn, kIs, kIn, kSep}));
  EXPECT_EQ(window(1), with({kIn, kThe, kOld, kSep}));
  EXPECT_EQ(window(2), with({kOld, kTower, kSep, kPad}));
  EXPECT_EQ(window(3), (std::vector<int64_t>{kCls, kWho, kUnknown, kSep, kRome, kSep, 0, 0, 0, 0}));
  // Only the third window has all of the answer; the others point at [CLS].
  EXPECT_EQ(batch.numbers.at("start_positions"), (std::vector<int64_t>{0, 0, 6, 0}));
  EXPECT_EQ(batch.numbers.at("end_positions"), (std::vector<int64_t>{0, 0, 7, 0}));
}

TEST(QuestionAnswering, LimitsQuestionsAndThenWindows) {
  const TinyModel model;
  std::vector<std::string> flags = windowed("--train_file", model.write("train.jsonl", kQuestions));
  flags.insert(flags.end(), {"--max_train_samples", "2", "--pad_to_max_length", "false"});
  const TaskSetup setup = prepare_task(model.arguments(flags));
  EXPECT_EQ(setup.train->rows, 2);
}

// Scores that are 0 but for the tokens of "old tower" in the third window.
Predictions scores() {
  Predictions predictions{.rows = 4};
  std::vector<float> start(40), end(40);
  start[26] = 5, end[27] = 4;
  // "rome" in the fourth, less than no answer.
  start[34] = 1, end[34] = 1, start[30] = 2, end[30] = 1;
  predictions.outputs = {{"start_logits", {4, 10}, start}, {"end_logits", {4, 10}, end}};
  return predictions;
}

TEST(QuestionAnswering, JoinsTheWindowsAgainAndScoresAnswers) {
  const TinyModel model;
  std::vector<std::string> flags = windowed("--validation_file", model.write("dev.jsonl", kQuestions));
  flags.emplace_back("--version_2_with_negative");
  const TaskSetup setup = prepare_task(model.arguments(flags));
  EXPECT_FALSE(setup.validation->batch({0}).numbers.contains("start_positions"));
  const Metrics metrics = setup.compute_metrics(scores());
  EXPECT_EQ(metrics[0].first, "exact");
  EXPECT_EQ(metrics[0].second, 100);
  EXPECT_EQ(parse_json(model.read("eval_predictions.json"), ""), Json({{"q1", "old tower"}, {"q2", ""}}));
  const Json best = parse_json(model.read("eval_nbest_predictions.json"), "");
  EXPECT_EQ(best["q1"][0]["text"], "old tower");
  EXPECT_EQ(best["q1"][0]["start_logit"], 5);
  EXPECT_EQ(best["q2"][0]["text"], "");
  EXPECT_EQ(best["q2"][0]["end_logit"], 1);
  const Json odds = parse_json(model.read("eval_null_odds.json"), "");
  EXPECT_EQ(odds["q1"], -9);
  EXPECT_EQ(odds["q2"], 1);
}

TEST(QuestionAnswering, WithoutNegativesEveryQuestionHasAnAnswer) {
  const TinyModel model;
  const TaskSetup setup = prepare_task(model.arguments(windowed("--test_file", model.write("test.jsonl", kQuestions))));
  const Metrics metrics = setup.write_predictions(scores(), model.path());
  EXPECT_EQ(metrics[0].first, "exact_match");
  EXPECT_EQ(parse_json(model.read("predict_predictions.json"), ""), Json({{"q1", "old tower"}, {"q2", "Rome"}}));
  EXPECT_FALSE(std::filesystem::exists(model.path() / "predict_null_odds.json"));
}

TEST(QuestionAnswering, NamesTheRowOfAQuestionThatLeavesNoRoom) {
  const TinyModel model;
  const std::string file = model.write("train.jsonl", kQuestions);
  const TrainArguments arguments = model.arguments({"--train_file", file, "--max_seq_length", "6"});
  EXPECT_TRUE(
      test::message_without_folders([&] { prepare_task(arguments); }).starts_with("train.jsonl: row 1: truncation"));
}

}  // namespace
}  // namespace transom
