// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cmath>

#include "support/message.h"
#include "work/train/tasks/task_data.h"
#include "work/train/tiny_model.h"

namespace transom {
namespace {

constexpr const char* kMaskedText = "Ann went to Rome\n\nthe old tower is old\n  \nAnn\n";

std::vector<std::string> masking(const std::string& file, std::vector<std::string> more) {
  more.insert(more.end(), {"--task", "fill-mask", "--train_file", file});
  return more;
}

TEST(MaskedLanguageModelling, TakesEveryLineThatIsNotBlank) {
  const TinyModel model;
  const TaskSetup setup = prepare_task(
      model.arguments(masking(model.write("train.txt", kMaskedText), {"--line_by_line", "--max_seq_length", "6"})));
  const Batch batch = setup.train->batch({0, 1, 2});
  EXPECT_EQ(batch.sequences.at("input_ids"), (PaddedRows{3,
                                                         6,
                                                         {kCls, kAnn, kWent, kTo, kRome, kSep, kCls, kThe, kOld, kTower,
                                                          kIs, kSep, kCls, kAnn, kSep, kPad, kPad, kPad}}));
}

TEST(MaskedLanguageModelling, JoinsLinesAndCutsThemIntoBlocks) {
  const TinyModel model;
  const TaskSetup setup =
      prepare_task(model.arguments(masking(model.write("train.txt", kMaskedText), {"--max_seq_length", "4"})));
  // 6 + 2 + 7 + 2 + 3 tokens, with [CLS] and [SEP] for every line, blank or not.
  ASSERT_EQ(setup.train->rows, 5);
  const Batch batch = setup.train->batch({0, 1, 4});
  EXPECT_EQ(batch.sequences.at("input_ids"),
            (PaddedRows{3, 4, {kCls, kAnn, kWent, kTo, kRome, kSep, kCls, kSep, kSep, kCls, kAnn, kSep}}));
  EXPECT_EQ(batch.sequences.at("special_tokens_mask").values,
            (std::vector<int64_t>{1, 0, 0, 0, 0, 1, 1, 1, 1, 1, 0, 1}));
}

TEST(MaskedLanguageModelling, MasksWordsAnewForEachDrawAndNeverSpecialTokens) {
  const TinyModel model;
  const TaskSetup setup = prepare_task(
      model.arguments(masking(model.write("train.txt", kMaskedText), {"--line_by_line", "--mlm_probability", "0.5"})));
  const Batch plain = setup.train->batch({0, 1, 2});
  const auto masked = [&](uint64_t draw) {
    Batch batch = plain;
    setup.train->augment(batch, draw);
    return batch;
  };
  bool changes = false;
  int64_t labelled = 0, masks = 0;
  for (uint64_t draw = 0; draw < 40; ++draw) {
    const Batch batch = masked(draw), again = masked(draw);
    const auto& ids = batch.sequences.at("input_ids").values;
    const auto& labels = batch.sequences.at("labels").values;
    EXPECT_EQ(ids, again.sequences.at("input_ids").values);
    EXPECT_FALSE(batch.sequences.contains("special_tokens_mask"));
    changes |= labels != masked(draw + 1).sequences.at("labels").values;
    const auto& before = plain.sequences.at("input_ids").values;
    for (size_t i = 0; i < ids.size(); ++i) {
      if (before[i] == kCls || before[i] == kSep || before[i] == kPad) {
        EXPECT_EQ(labels[i], kIgnoredLabel);
      } else if (labels[i] != kIgnoredLabel) {
        ++labelled;
        EXPECT_EQ(labels[i], before[i]);
        masks += ids[i] == kMask;
      } else {
        EXPECT_EQ(ids[i], before[i]);
      }
    }
  }
  EXPECT_TRUE(changes);
  EXPECT_NEAR(static_cast<double>(labelled) / (40 * 10), 0.5, 0.12);
  EXPECT_NEAR(static_cast<double>(masks) / static_cast<double>(labelled), 0.8, 0.12);
}

TEST(MaskedLanguageModelling, AResumedRunMasksAsAnUnbrokenOne) {
  const TinyModel model;
  const auto losses = [&](std::vector<std::string> more) {
    more.insert(more.end(), {"--line_by_line", "--per_device_train_batch_size", "2", "--max_steps", "6", "--save_steps",
                             "3", "--mlm_probability", "0.9"});
    const TrainArguments arguments = model.arguments(masking(model.write("train.txt", kMaskedText), more));
    TaskSetup setup = prepare_task(arguments);
    Trainer trainer(std::move(setup.model), arguments.training);
    configure_trainer(trainer, setup);
    std::vector<double> result;
    trainer.set_step_reports([&](const StepReport& report) { result.push_back(report.loss); });
    trainer.train(arguments.training.resume_from_checkpoint);
    return result;
  };
  const std::vector<double> unbroken = losses({}),
                            resumed = losses({"--resume_from_checkpoint", (model.path() / "checkpoint-3").string()});
  ASSERT_EQ(unbroken.size(), 6u);
  EXPECT_EQ(resumed, std::vector<double>(unbroken.begin() + 3, unbroken.end()));
}

TEST(MaskedLanguageModelling, TakesAWordWithAllItsTokens) {
  const TinyModel model;
  const TaskSetup setup = prepare_task(model.arguments(masking(
      model.write("train.txt", "Romes Romes\n"), {"--line_by_line", "--whole_word_mask", "--mlm_probability", "0.5"})));
  for (uint64_t draw = 0; draw < 20; ++draw) {
    Batch batch = setup.train->batch({0});
    setup.train->augment(batch, draw);
    const auto& labels = batch.sequences.at("labels").values;
    EXPECT_EQ(labels[1] == kIgnoredLabel, labels[2] == kIgnoredLabel);
    EXPECT_EQ(labels[3] == kIgnoredLabel, labels[4] == kIgnoredLabel);
  }
}

TEST(MaskedLanguageModelling, KeepsTheFirstRowsForValidation) {
  const TinyModel model;
  std::string text;
  for (int i = 0; i < 10; ++i) text += i < 2 ? "Ann\n" : "Rome went\n";
  const TaskSetup setup = prepare_task(model.arguments(
      masking(model.write("train.txt", text), {"--line_by_line", "--do_eval", "--validation_split_percentage", "20"})));
  EXPECT_EQ(setup.train->rows, 8);
  ASSERT_EQ(setup.validation->rows, 2);
  EXPECT_EQ(setup.validation->lengths, (std::vector<int64_t>{3, 3}));
}

TEST(MaskedLanguageModelling, ScoresMaskedTokensAndAddsPerplexity) {
  const TinyModel model;
  const TaskSetup setup =
      prepare_task(model.arguments(masking(model.write("train.txt", kMaskedText), {"--line_by_line"})));
  Predictions predictions{.rows = 1};
  predictions.outputs.push_back({"predictions", {1, 4}, {1, 2, 3, 4}});
  predictions.labels = {-100, 2, 9, -100};
  EXPECT_EQ(setup.compute_metrics(predictions), (Metrics{{"accuracy", 0.5}}));
  Metrics metrics = {{"eval_loss", 2}};
  setup.complete_evaluation(metrics);
  EXPECT_EQ(metrics.back(), (std::pair<std::string, double>("perplexity", std::exp(2.0))));
}

// The head that sees masked positions alone learns what the one that sees all learns: two runs of the same masks.
TEST(MaskedLanguageModelling, MaskedPositionsAloneGiveTheLossesOfAllLogits) {
  const auto losses = [&](std::vector<std::string> more, size_t length) {
    const TinyModel model;
    more.insert(more.end(), {"--line_by_line", "--max_seq_length", std::to_string(length),
                             "--per_device_train_batch_size", "3", "--max_steps", "4", "--learning_rate", "0.01",
                             "--gradient_accumulation_steps", "2", "--mlm_probability", "0.5"});
    const TrainArguments arguments = model.arguments(masking(model.write("train.txt", kMaskedText), more));
    TaskSetup setup = prepare_task(arguments);
    Trainer trainer(std::move(setup.model), arguments.training);
    configure_trainer(trainer, setup);
    std::vector<double> result;
    trainer.set_step_reports([&](const StepReport& report) { result.push_back(report.loss); });
    trainer.train(arguments.training.resume_from_checkpoint);
    return result;
  };
  // No line has more than five words, so that the bound of five takes none away.
  const std::vector<double> all = losses({}, 8), few = losses({"--max_predictions_per_seq", "5"}, 8),
                            fewer = losses({"--max_predictions_per_seq", "1"}, 8);
  ASSERT_EQ(all.size(), 4u);
  ASSERT_EQ(few.size(), 4u);
  for (size_t i = 0; i < 4; ++i) EXPECT_NEAR(few[i], all[i], 2e-5 * std::abs(all[i])) << i;
  EXPECT_LT(few.back(), few.front());
  for (const double loss : fewer) EXPECT_TRUE(std::isfinite(loss));
  EXPECT_NE(fewer, few);
}

TEST(MaskedLanguageModelling, RefusesABoundOfMasksWhereThereAreNone) {
  const TinyModel model;
  const std::string file = model.write("train.csv", "sentence,label\nAnn,0\nRome,1\n");
  const auto message = [&](std::vector<std::string> flags) {
    return test::message_without_folders([&] { prepare_task(model.arguments(std::move(flags))); });
  };
  EXPECT_EQ(message({"--train_file", file, "--max_predictions_per_seq", "3"}),
            "--max_predictions_per_seq: is for --task fill-mask, found text-classification");
  EXPECT_NE(message({"--train_file", file, "--max_predictions_per_seq", "3", "--label_smoothing_factor", "0.1"})
                .find("label_smoothing_factor"),
            std::string::npos);
}

TEST(MaskedLanguageModelling, RefusesTextThatFillsNoBlock) {
  const TinyModel model;
  const TrainArguments arguments = model.arguments(masking(model.write("train.txt", "Ann\n"), {}));
  EXPECT_EQ(test::message_without_folders([&] { prepare_task(arguments); }),
            "train.txt: expected at least max_seq_length (64) tokens of text; give a smaller one");
}

}  // namespace
}  // namespace transom
