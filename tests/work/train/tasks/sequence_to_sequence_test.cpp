// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "inputs/data/text/text_pairs.h"
#include "support/message.h"
#include "work/train/tasks/task_data.h"
#include "work/train/tiny_model.h"

namespace transom {
namespace {

constexpr const char* kT5 = R"({"model_type": "t5", "vocab_size": 22, "d_model": 16, "d_kv": 8, "d_ff": 32,
  "num_layers": 1, "num_heads": 2, "dropout_rate": 0, "pad_token_id": 0, "eos_token_id": 3, "decoder_start_token_id": 0})";

// A tiny T5 with the words of TinyModel.
class TinyT5 : public TinyModel {
 public:
  TinyT5() {
    Model::from_config(kT5, {.task = "text2text-generation"})->save_pretrained(path().string());
    write("vocab.txt", std::string(kTinyVocabulary) + "<extra_id_1>\n<extra_id_0>\n");
    write("tokenizer_config.json",
          R"({"tokenizer_class": "BertTokenizer", "eos_token": "[SEP]", "pad_token": "[PAD]"})");
  }
  TrainArguments pairs(const std::string& task, const std::string& file, std::vector<std::string> more) const {
    more.insert(more.end(), {"--task", task, "--train_file", file});
    return arguments(more);
  }
};

constexpr const char* kTranslations = R"({"translation": {"de": "Ann", "en": "Ann went to Rome"}}
{"translation": {"de": "the tower", "en": "who"}}
)";

TEST(SequenceToSequence, PadsSourcesAndTargetsAmongThemselves) {
  const TinyT5 model;
  const TaskSetup setup = prepare_task(model.pairs("translation", model.write("train.jsonl", kTranslations),
                                                   {"--source_lang", "en", "--target_lang", "de_DE"}));
  const Batch batch = setup.train->batch({0, 1});
  EXPECT_EQ(batch.sequences.at("input_ids"),
            (PaddedRows{2, 6, {kCls, kAnn, kWent, kTo, kRome, kSep, kCls, kWho, kSep, kPad, kPad, kPad}}));
  EXPECT_EQ(batch.sequences.at("attention_mask").values, (std::vector<int64_t>{1, 1, 1, 1, 1, 1, 1, 1, 1, 0, 0, 0}));
  EXPECT_EQ(batch.sequences.at("labels"), (PaddedRows{2, 4, {kCls, kAnn, kSep, -100, kCls, kThe, kTower, kSep}}));
}

TEST(SequenceToSequence, CutsAndPrefixes) {
  const TinyT5 model;
  const std::string file = model.write("train.jsonl", kTranslations);
  const TaskSetup setup = prepare_task(
      model.pairs("translation", file,
                  {"--source_lang", "en", "--target_lang", "de", "--source_prefix", "the ", "--max_source_length", "4",
                   "--max_target_length", "3", "--pad_to_max_length", "--val_max_target_length", "2",
                   "--validation_file", file, "--ignore_pad_token_for_loss", "false"}));
  const Batch batch = setup.train->batch({0});
  EXPECT_EQ(batch.sequences.at("input_ids").values, (std::vector<int64_t>{kCls, kThe, kAnn, kSep}));
  EXPECT_EQ(setup.train->batch({0}).sequences.at("labels").values, (std::vector<int64_t>{kCls, kAnn, kSep}));
  EXPECT_EQ(setup.validation->batch({1}).sequences.at("labels").values, (std::vector<int64_t>{kCls, kSep}));
}

TEST(SequenceToSequence, FindsColumnsAsTheScriptsDo) {
  const std::vector<Column> columns = {
      {"id", ColumnType::kInt}, {"article", ColumnType::kString}, {"highlights", ColumnType::kString}};
  const Dataset data = Dataset::from_rows(columns, {{int64_t{1}, std::string("a"), std::string("b")}});
  ScriptArguments script;
  const TextPairColumns first = text_pair_columns(data, script);
  EXPECT_EQ(first.source, 1u);
  EXPECT_EQ(first.target, 2u);
  script.text_column = "highlights";
  const TextPairColumns turned = text_pair_columns(data, script);
  EXPECT_EQ(turned.source, 2u);
  EXPECT_EQ(turned.target, 1u);
  script.summary_column = "summary";
  EXPECT_EQ(test::message_without_folders([&] { text_pair_columns(data, script); }),
            "rows: expected the column 'summary' (--summary_column), found id, article, highlights");
}

TEST(SequenceToSequence, NamesOfColumnsSayWhichIsTheSource) {
  const auto found = [](const std::vector<std::string>& names) {
    std::vector<Column> columns;
    for (const std::string& name : names) columns.push_back({name, ColumnType::kString});
    const Dataset data = Dataset::from_rows(columns, {Row(names.size(), std::string("a"))});
    std::string result = test::message_of([&] { text_pair_columns(data, {}); });
    if (!result.empty()) return result;
    const TextPairColumns pair = text_pair_columns(data, {});
    return names[pair.source] + " to " + (pair.target ? names[*pair.target] : "nothing");
  };
  EXPECT_EQ(found({"a", "b"}), "a to b");
  EXPECT_EQ(found({"a"}), "a to nothing");
  EXPECT_EQ(found({"completion", "prompt"}), "prompt to completion");
  EXPECT_EQ(found({"id", "summary", "text", "title"}), "text to summary");
  EXPECT_EQ(found({"a", "b", "c"}),
            "rows: expected two columns of text, found a, b, c; name them with --text_column and --summary_column, or "
            "with --source_lang and --target_lang");
  EXPECT_TRUE(found({"instruction", "input", "output"}).starts_with("rows: found instructions and answers (columns"));
  EXPECT_TRUE(found({"prompt", "chosen", "rejected"}).starts_with("rows: found preferences (columns"));
}

// A target that is a number is text in a model of texts.
TEST(SequenceToSequence, NumbersOfCsvAreTextsAsWritten) {
  const TinyT5 model;
  const std::string csv = model.write("train.csv", "source,target\nAnn,007\nwent,1.50\n"),
                    lines = model.write("train.jsonl",
                                        "{\"source\": \"Ann\", \"target\": \"007\"}\n"
                                        "{\"source\": \"went\", \"target\": \"1.50\"}\n");
  const auto batch = [&](const std::string& file) {
    return prepare_task(model.pairs("text2text-generation", file, {})).train->batch({0, 1}).sequences;
  };
  EXPECT_EQ(batch(csv), batch(lines));
  EXPECT_EQ(batch(model.write("unnamed.csv", "a,b\nAnn,007\nwent,1.50\n")), batch(lines));
}

TEST(SequenceToSequence, LeavesOutBlankPairsOfSummaries) {
  const TinyT5 model;
  const std::string file = model.write("train.csv", "text,summary\nAnn went,Ann\n,Rome\nRome,\nthe tower,tower\n");
  EXPECT_EQ(prepare_task(model.pairs("summarization", file, {})).train->rows, 2);
  EXPECT_EQ(prepare_task(model.pairs("text2text-generation", file, {})).train->rows, 4);
}

TEST(SequenceToSequence, TokenisedRowsMayHaveLabelsOfAnotherLength) {
  const TinyT5 model;
  const std::string file =
      model.write("train.jsonl",
                  "{\"input_ids\": [5, 6, 7], \"labels\": [8, 3]}\n{\"input_ids\": [5], \"labels\": [9, 9, 9, 3]}\n");
  const Batch batch = prepare_task(model.pairs("translation", file, {})).train->batch({0, 1});
  EXPECT_EQ(batch.sequences.at("input_ids").length, 3);
  EXPECT_EQ(batch.sequences.at("labels"), (PaddedRows{2, 4, {8, 3, -100, -100, 9, 9, 9, 3}}));
}

TEST(SequenceToSequence, CutsSpansOutOfPlainText) {
  const TinyT5 model;
  std::string text;
  for (int i = 0; i < 20; ++i) text += "the old tower is old and Ann went to Rome\n";
  const TaskSetup setup =
      prepare_task(model.pairs("fill-mask", model.write("train.txt", text), {"--max_seq_length", "40"}));
  Batch batch = setup.train->batch({0, 1}), again = batch;
  setup.train->augment(batch, 5);
  setup.train->augment(again, 5);
  const PaddedRows& ids = batch.sequences.at("input_ids");
  EXPECT_EQ(ids, again.sequences.at("input_ids"));
  EXPECT_EQ(ids.length, 40);
  EXPECT_EQ(ids.values[39], kSep);
  EXPECT_EQ(std::count(ids.values.begin(), ids.values.end(), 21), 2) << "one <extra_id_0> a row";
  EXPECT_EQ(batch.sequences.at("labels").values[0], 21);
  Batch other = setup.train->batch({0, 1});
  setup.train->augment(other, 6);
  EXPECT_NE(other.sequences.at("input_ids"), ids);
}

double metric(const Metrics& metrics, std::string_view name) {
  for (const auto& [each, value] : metrics)
    if (each == name) return value;
  ADD_FAILURE() << name << " is missing";
  return -1;
}

TEST(SequenceToSequence, EvaluatesWhatItWrites) {
  const TinyT5 model;
  const std::string file = model.write("train.jsonl", kTranslations);
  const TrainArguments arguments =
      model.pairs("translation", file,
                  {"--source_lang", "de", "--target_lang", "en", "--max_steps", "80", "--learning_rate", "0.02",
                   "--save_strategy", "no", "--validation_file", file, "--test_file", file, "--predict_with_generate",
                   "--generation_max_length", "12"});
  TaskSetup setup = prepare_task(arguments);
  Trainer trainer(std::move(setup.model), arguments.training);
  configure_trainer(trainer, setup);
  EXPECT_LT(metric(trainer.evaluate(), "eval_exact_match"), 1);
  trainer.train();
  const Metrics after = trainer.evaluate();
  EXPECT_EQ(metric(after, "eval_exact_match"), 1);
  EXPECT_EQ(metric(after, "eval_gen_len"), 4.5);  // [CLS] ann went to rome [SEP]; [CLS] who [SEP]
  setup.write_predictions(trainer.predict(*setup.test), model.path());
  EXPECT_EQ(model.read("generated_predictions.txt"), "ann went to rome\nwho");
}

TEST(SequenceToSequence, PredictsOnlyWhatIsGenerated) {
  const TinyT5 model;
  const std::string file = model.write("train.jsonl", kTranslations);
  const TrainArguments arguments = model.pairs("translation", file, {"--test_file", file, "--do_predict"});
  EXPECT_NE(test::message_without_folders([&] { prepare_task(arguments); }).find("--predict_with_generate"),
            std::string::npos);
}

TEST(SequenceToSequence, LearnsItsPairs) {
  const TinyT5 model;
  const TrainArguments arguments =
      model.pairs("translation", model.write("train.jsonl", kTranslations),
                  {"--source_lang", "de", "--target_lang", "en", "--max_steps", "60", "--learning_rate", "0.02",
                   "--save_strategy", "no", "--label_smoothing_factor", "0.0"});
  TaskSetup setup = prepare_task(arguments);
  Trainer trainer(std::move(setup.model), arguments.training);
  configure_trainer(trainer, setup);
  std::vector<double> losses;
  trainer.set_step_reports([&](const StepReport& report) { losses.push_back(report.loss); });
  trainer.train();
  EXPECT_LT(losses.back(), losses.front() / 10);
}

}  // namespace
}  // namespace transom
