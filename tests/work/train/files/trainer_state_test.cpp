// SPDX-License-Identifier: Apache-2.0
#include "work/train/files/trainer_state.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "base/files/files.h"
#include "base/json/json.h"
#include "support/temporary_folder.h"
#include "work/train/files/checkpoints.h"
#include "work/train/golden.h"
#include "work/train/loop/trainer_control.h"

namespace transom {
namespace {

TEST(TrainerState, ComesBackTheSame) {
  TrainerState state;
  state.global_step = 3;
  state.epoch = 0.5;
  state.log({{"loss", 1.25}, {"grad_norm", std::numeric_limits<double>::infinity()}});
  state.best_metric = 0.5;
  state.best_model_checkpoint = "out/checkpoint-3";
  state.stateful_callbacks = EarlyStopping(2, 0.1).state();
  const std::string json = state.to_json();
  EXPECT_NE(
      json.find(
          "\"log_history\": [\n    {\n      \"epoch\": 0.5,\n      \"grad_norm\": Infinity,\n      \"loss\": 1.25,\n"
          "      \"step\": 3\n    }\n  ]"),
      std::string::npos)
      << json;
  EXPECT_EQ(TrainerState::from_json(json, "state").best_model_checkpoint, "out/checkpoint-3");
  EXPECT_THROW(TrainerState::from_json("[]", "state"), Error);
  EXPECT_THROW(TrainerState::from_json(R"({"global_step": "x"})", "state"), Error);
  EXPECT_THROW(TrainerState::from_json(R"({"log_history": [{"loss": []}]})", "state"), Error);
}

TEST(TrainerState, FilesOfTransformersComeBackByteForByte) {
  const auto folder = test::golden_folder() / "trainer/bert-resume/checkpoint-20";
  const std::string json = read_file(folder / "trainer_state.json");
  EXPECT_EQ(TrainerState::from_json(json, "golden").to_json(), json);
}

TEST(TrainerState, StepsMayBeRatios) {
  TrainingArguments arguments;
  arguments.logging_steps = 0.05;
  arguments.eval_steps = 7;
  arguments.save_steps = 0.5;
  TrainerState state;
  state.compute_steps(arguments, 75);
  EXPECT_EQ(state.logging_steps, 4);
  EXPECT_EQ(state.eval_steps, 7);
  EXPECT_EQ(state.save_steps, 38);
}

TEST(TrainerState, TheBestMetric) {
  TrainingArguments arguments;
  TrainerState state;
  EXPECT_FALSE(state.update_best({{"eval_loss", 1.0}}, arguments));
  arguments.metric_for_best_model = "accuracy";
  arguments.greater_is_better = true;
  state.global_step = 5;
  EXPECT_TRUE(state.update_best({{"eval_accuracy", 0.5}}, arguments));
  state.global_step = 10;
  EXPECT_FALSE(state.update_best({{"eval_accuracy", 0.5}}, arguments));
  EXPECT_EQ(state.best_global_step, 5);
  EXPECT_THROW(state.update_best({{"eval_loss", 0.5}}, arguments), Error);
}

TEST(Flow, StepsAndTheEnd) {
  TrainingArguments arguments;
  arguments.eval_strategy = "steps";
  arguments.logging_first_step = true;
  TrainerState state;
  state.max_steps = 11;
  state.logging_steps = 2, state.eval_steps = 4, state.save_steps = 5;
  const auto at = [&](int64_t step) {
    state.global_step = step;
    return after_step(arguments, state);
  };
  EXPECT_EQ(at(1), (TrainerControl{.log = true}));
  EXPECT_EQ(at(4), (TrainerControl{.log = true, .evaluate = true}));
  EXPECT_EQ(at(5), (TrainerControl{.save = true}));
  EXPECT_EQ(at(11), (TrainerControl{.evaluate = true, .save = true, .stop = true}));
  arguments.eval_delay = 20;
  EXPECT_FALSE(at(11).evaluate);
  arguments.eval_strategy = arguments.save_strategy = "epoch";
  arguments.eval_delay = 2;
  state.epoch = 1;
  EXPECT_EQ(after_epoch(arguments, state), (TrainerControl{.save = true}));
  state.epoch = 2;
  EXPECT_EQ(after_epoch(arguments, state), (TrainerControl{.evaluate = true, .save = true}));
}

// What Trainer logged and when, and which evaluation was the best, of every golden case.
TEST(Flow, IsThatOfTrainer) {
  const auto cases = golden_trainer_cases("log_history.json");
  ASSERT_FALSE(cases.empty());
  for (const auto& folder : cases) {
    const TrainingArguments arguments =
        parse_train_json(read_file(folder / "training_args.json"), folder.string()).training;
    const Json history = read_json(folder / "log_history.json"), about = read_json(folder / "case.json");
    TrainerState state;
    state.max_steps = about["steps"].get<int64_t>();
    state.compute_steps(arguments, state.max_steps);
    std::vector<std::pair<int64_t, std::string>> expected, found;
    for (const Json& record : history) {
      if (record.contains("train_loss")) break;  // the end; the cases were evaluated once more after it
      for (const char* kind : {"loss", "eval_loss"})
        if (record.contains(kind)) expected.emplace_back(record["step"].get<int64_t>(), kind);
    }
    for (state.global_step = 1; state.global_step <= state.max_steps; ++state.global_step) {
      const TrainerControl decisions = after_step(arguments, state);
      if (decisions.log) found.emplace_back(state.global_step, "loss");
      if (!decisions.evaluate) continue;
      found.emplace_back(state.global_step, "eval_loss");
      for (const Json& record : history)
        if (record.contains("eval_loss") && record["step"] == state.global_step)
          state.update_best(
              {{"eval_loss", record["eval_loss"].get<double>()}, {"eval_accuracy", record.value("eval_accuracy", 0.0)}},
              arguments);
    }
    EXPECT_EQ(found, expected) << folder;
    if (about.contains("best_metric")) {
      EXPECT_EQ(state.best_metric, about["best_metric"].get<double>()) << folder;
    }
    if (about.value("best_checkpoint", "") != "") {
      EXPECT_EQ(checkpoint_name(state.best_global_step.value_or(0)), about["best_checkpoint"].get<std::string>());
    }
  }
}

TEST(Flow, EarlyStopping) {
  EarlyStopping stopping(2, 0.1);
  EXPECT_FALSE(stopping.observe(0.5, std::nullopt, true));
  EXPECT_FALSE(stopping.observe(0.55, 0.5, true));  // better, but not by more than the threshold
  EarlyStopping resumed(2, 0.1);
  resumed.load(stopping.state());
  EXPECT_TRUE(resumed.observe(0.5, 0.55, true));
  EXPECT_FALSE(stopping.observe(0.8, 0.55, true));
  EXPECT_FALSE(stopping.observe(0.9, 0.8, false));
  EXPECT_TRUE(stopping.observe(0.9, 0.8, false));
  EXPECT_THROW(stopping.load({"{}"}), Error);
}

TEST(Checkpoints, NamesAndRotation) {
  using Names = std::vector<std::string>;
  const Names names = {"checkpoint-100", "checkpoint-20", "runs", "checkpoint-", "checkpoint-x", "checkpoint-30"};
  EXPECT_EQ(sorted_checkpoints(names), (Names{"checkpoint-20", "checkpoint-30", "checkpoint-100"}));
  EXPECT_EQ(last_checkpoint(names), "checkpoint-100");
  EXPECT_FALSE(last_checkpoint({"runs"}));
  EXPECT_EQ(checkpoints_to_delete(names, {}, {}), Names{});
  EXPECT_EQ(checkpoints_to_delete(names, 0, {}), Names{});
  EXPECT_EQ(checkpoints_to_delete(names, 2, {}), (Names{"checkpoint-20"}));
  EXPECT_EQ(checkpoints_to_delete(names, 2, "checkpoint-20"), (Names{"checkpoint-30"}));
  EXPECT_EQ(checkpoints_to_delete(names, 1, "checkpoint-20"), (Names{"checkpoint-30"}));
  EXPECT_EQ(checkpoints_to_delete(names, 1, "checkpoint-100"), (Names{"checkpoint-20", "checkpoint-30"}));
  EXPECT_EQ(checkpoints_to_delete_at_end(names, 1, "checkpoint-20"), (Names{"checkpoint-30", "checkpoint-100"}));
  EXPECT_EQ(checkpoints_to_delete_at_end(names, 2, "checkpoint-20"), Names{});
}

TEST(Results, AreSortedAndCombined) {
  const test::TemporaryFolder folder;
  save_metrics(folder.path(), "train", {{"train_loss", 1.5}, {"epoch", 3.0}, {"train_samples", int64_t{7}}});
  EXPECT_EQ(read_file(folder.path() / "train_results.json"),
            "{\n    \"epoch\": 3.0,\n    \"train_loss\": 1.5,\n    \"train_samples\": 7\n}");
  save_metrics(folder.path(), "eval", {{"eval_loss", 1.0}, {"epoch", 4.0}});
  EXPECT_EQ(read_file(folder.path() / "all_results.json"),
            "{\n    \"epoch\": 4.0,\n    \"eval_loss\": 1.0,\n    \"train_loss\": 1.5,\n    \"train_samples\": 7\n}");
  EXPECT_EQ(to_json(speed_metrics("eval", 2.00004, 10, 3)),
            R"({"eval_runtime": 2.0, "eval_samples_per_second": 5.0, "eval_steps_per_second": 1.5})");
}

}  // namespace
}  // namespace transom
