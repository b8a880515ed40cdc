// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>

#include "base/files/files.h"
#include "base/json/json.h"
#include "support/folders.h"
#include "support/kept_log.h"
#include "support/message.h"
#include "transom/fine_tuning.h"
#include "work/train/tasks/task_data.h"
#include "work/train/tiny_model.h"

namespace transom {
namespace {

constexpr const char* kWritingT5 = R"({"model_type": "t5", "vocab_size": 22, "d_model": 16, "d_kv": 8, "d_ff": 32,
  "num_layers": 1, "num_heads": 2, "dropout_rate": 0, "pad_token_id": 0, "eos_token_id": 3, "decoder_start_token_id": 0})";

class WrittenAnswers : public testing::Test {
 protected:
  class WritingModel : public TinyModel {
   public:
    WritingModel() {
      Model::from_config(kWritingT5, {.task = "text2text-generation"})->save_pretrained(path().string());
      write("vocab.txt", std::string(kTinyVocabulary) + "<extra_id_1>\n<extra_id_0>\n");
      write("tokenizer_config.json",
            R"({"tokenizer_class": "BertTokenizer", "eos_token": "[SEP]", "pad_token": "[PAD]"})");
    }
    TrainArguments asked(const std::string& file, std::vector<std::string> more) const {
      more.insert(more.end(), {"--task", "text2text-generation", "--train_file", file, "--validation_file", file});
      return arguments(more);
    }
  };
  WritingModel model_;
  const std::string rows_ = model_.write(
      "rows.jsonl",
      R"({"id": "a", "question": " who went", "context": "Ann went to Rome", "answers": {"text": ["Ann", "who"], "answer_start": [0, 0]}})"
      "\n"
      R"({"id": "b", "question": "who", "context": "the tower", "answers": {"text": [], "answer_start": []}})"
      "\n");
};

TEST_F(WrittenAnswers, AreAskedForAndPaddedAsTheScriptDoes) {
  const TaskSetup setup = prepare_task(model_.asked(rows_, {"--max_seq_length", "16", "--max_answer_length", "5"}));
  const Batch batch = setup.train->batch({0, 1});
  const PaddedRows& ids = batch.sequences.at("input_ids");
  EXPECT_EQ(ids.length, 16);
  EXPECT_EQ(ids.values[0], kCls);
  // question : who went context : Ann went to Rome
  const std::vector<int64_t> known = {kWho, kWent, kAnn, kWent, kTo, kRome, kSep};
  std::vector<int64_t> found;
  for (size_t i = 1; i < 16; ++i)
    if (std::find(known.begin(), known.end(), ids.values[i]) != known.end()) found.push_back(ids.values[i]);
  EXPECT_EQ(found, known);
  EXPECT_EQ(batch.sequences.at("labels"),
            (PaddedRows{2, 5, {kCls, kAnn, kSep, -100, -100, kCls, kSep, -100, -100, -100}}));
  EXPECT_EQ(
      prepare_task(model_.asked(rows_, {"--pad_to_max_length", "false"})).train->batch({1}).sequences.at("labels"),
      (PaddedRows{1, 2, {kCls, kSep}}));
}

// Long ones become several rows where answers are written, and one where they are learnt.
TEST_F(WrittenAnswers, LongContextsAreCut) {
  const TaskSetup setup = prepare_task(model_.asked(rows_, {"--max_seq_length", "8"}));
  EXPECT_EQ(setup.train->rows, 2);
  EXPECT_GT(setup.validation->rows, 2);
}

// docs/guide/sequence-to-sequence.md: the file of the guide.
TEST_F(WrittenAnswers, TheFileOfTheGuideIsTrainedOnAndScored) {
  const std::string file = test::source_folder() + std::string("/examples/data/contexts.jsonl");
  const std::string rows = read_file(file);
  EXPECT_EQ(std::count(rows.begin(), rows.end(), '\n'), 20);
  FineTuneResult result;
  {
    const test::KeptLog quiet;
    result =
        fine_tune(model_.asked(file, {"--max_steps", "2", "--predict_with_generate", "true", "--max_seq_length", "64",
                                      "--max_answer_length", "6", "--do_train", "--do_eval", "--save_strategy", "no"}));
  }
  const auto value = [&](const std::string& name) {
    for (const auto& [key, number] : result.evaluation)
      if (key == name) return number;
    return -1.0;
  };
  for (const char* name : {"eval_exact_match", "eval_f1"}) {
    EXPECT_GE(value(name), 0) << name;
    EXPECT_LE(value(name), 100) << name;
  }
  EXPECT_EQ(read_json(model_.path() / "eval_predictions.json").size(), 20u);
}

TEST_F(WrittenAnswers, WhatIsMissingIsNamed) {
  const std::string bare = model_.write("bare.jsonl", "{\"question\": \"who\", \"context\": \"Ann\"}\n");
  EXPECT_NE(test::message_of([&] { prepare_task(model_.asked(bare, {})); }).find("expected answers to learn from"),
            std::string::npos);
  for (const char* flag : {"--question_column", "--context_column", "--answer_column"}) {
    const std::string message = test::message_of([&] { prepare_task(model_.asked(rows_, {flag, "missing"})); });
    EXPECT_NE(message.find("expected the column"), std::string::npos) << message;
    EXPECT_NE(message.find("missing"), std::string::npos) << message;
  }
}

// run_seq2seq_qa's names of columns, beside others that are called as its own ones are.
TEST_F(WrittenAnswers, StandInColumnsOfAnyName) {
  const std::string named = model_.write(
      "named.jsonl",
      R"({"id": "a", "q": " who went", "c": "Ann went to Rome", "a": {"text": ["Ann", "who"], "answer_start": [0, 0]}, "context": "no", "answers": "no"})"
      "\n"
      R"({"id": "b", "q": "who", "c": "the tower", "a": {"text": [], "answer_start": []}, "context": "no", "answers": "no"})"
      "\n");
  const Batch batch = prepare_task(model_.asked(rows_, {})).train->batch({0, 1});
  const TaskSetup setup =
      prepare_task(model_.asked(named, {"--question_column", "q", "--context_column", "c", "--answer_column", "a"}));
  for (const char* name : {"input_ids", "labels"})
    EXPECT_EQ(setup.train->batch({0, 1}).sequences.at(name), batch.sequences.at(name)) << name;
}

}  // namespace
}  // namespace transom
