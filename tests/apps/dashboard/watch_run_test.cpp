// SPDX-License-Identifier: Apache-2.0
// A run that is watched: its curves are those of its log, it stands still, saves and stops as asked, and its numbers
// are those of a run that nobody watches.
#include "apps/dashboard/monitor/watch_run.h"

#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>
#include <functional>
#include <thread>

#include "base/files/files.h"
#include "transom/fine_tuning.h"
#include "work/train/tiny_model.h"

namespace transom::dashboard {
namespace {

namespace fs = std::filesystem;

class WatchRun : public testing::Test {
 protected:
  WatchRun() {
    std::string rows = "text,label\n";
    for (int i = 0; i < 12; ++i) rows += i % 2 == 0 ? "ann went to rome,x\n" : "the old tower,y\n";
    file_ = model_.write("a.csv", rows);
  }

  // Runs to the end, or until it is stopped.
  FineTuneResult run(const std::string& output, int steps, bool watched) {
    TrainArguments arguments = parse_train_arguments(
        {"--model_name_or_path", model_.path().string(), "--task", "text-classification", "--train_file", file_,
         "--output_dir", (model_.path() / output).string(), "--max_steps", std::to_string(steps), "--logging_steps",
         "1", "--save_strategy", "no", "--per_device_train_batch_size", "4"});
    FineTuneOptions options;
    if (watched) {
      options.callbacks.push_back(watch_run(monitor_, control_));
      options.on_step = [this](const StepReport& report) { add_step(*monitor_, report); };
    }
    return fine_tune(arguments, options);
  }
  static bool wait_for(const std::function<bool()>& is_so) {
    for (int i = 0; i < 600 && !is_so(); ++i) std::this_thread::sleep_for(std::chrono::milliseconds(50));
    return is_so();
  }
  RunStatus status() const { return monitor_->view().status; }

  TinyModel model_;
  std::string file_;
  std::shared_ptr<RunMonitor> monitor_ = std::make_shared<RunMonitor>();
  std::shared_ptr<RunControl> control_ = std::make_shared<RunControl>();
};

TEST_F(WatchRun, HasTheNumbersOfARunThatNobodyWatches) {
  run("alone", 6, false);
  control_->profile = true;
  run("watched", 6, true);
  const auto read = [&](const char* output) { return model_.read(std::string(output) + "/model.safetensors"); };
  EXPECT_FALSE(read("alone").empty());
  EXPECT_EQ(read("alone"), read("watched"));

  const RunView view = monitor_->view();
  EXPECT_EQ(view.status.step, 6);
  EXPECT_EQ(view.status.max_steps, 6);
  EXPECT_GT(view.status.memory.resident, 0u);
  const TrainerState state = TrainerState::load(model_.path() / "watched" / "trainer_state.json");
  size_t curves = 0;
  for (const Series& series : view.series)
    for (const char* name : {"loss", "grad_norm", "learning_rate"})
      if (series.name() == name) {
        ++curves;
        ASSERT_EQ(series.points().size(), 6u) << name;
        for (size_t i = 0; i < 6; ++i) {
          EXPECT_EQ(series.points()[i].step, static_cast<int64_t>(i) + 1);
          EXPECT_NEAR(series.points()[i].value, *find_number(state.log_history.at(i), name), 1e-6) << name;
        }
      }
  EXPECT_EQ(curves, 3u);
  EXPECT_EQ(view.kernels.steps, kProfiledSteps);
  EXPECT_FALSE(view.kernels.rows.empty());
}

TEST_F(WatchRun, StandsStillSavesMeanwhileAndStops) {
  control_->pause = true;
  std::optional<FineTuneResult> result;
  std::thread thread([&] { result = run("out", 100'000, true); });
  EXPECT_TRUE(wait_for([&] { return status().phase == Phase::kPaused; }));
  const int64_t step = status().step;
  EXPECT_EQ(step, 1);
  control_->save = true;
  EXPECT_TRUE(wait_for([&] { return status().saved_step == 1; }));
  EXPECT_EQ(status().step, step);
  EXPECT_TRUE(fs::exists(model_.path() / "out" / "checkpoint-1" / "trainer_state.json"));
  control_->pause = false;
  EXPECT_TRUE(wait_for([&] { return status().step > 3; }));
  // A pause is no obstacle to the end.
  control_->pause = true;
  control_->stop = true;
  thread.join();
  ASSERT_TRUE(result && result->interrupted);
  EXPECT_TRUE(fs::exists(fs::path(*result->interrupted) / "trainer_state.json"));
  EXPECT_EQ(status().phase, Phase::kStopped);
}

TEST_F(WatchRun, GoesOnByItselfFromTheLastCheckpointWhereThereIsOne) {
  const auto with_auto = [&](int steps) {
    return fine_tune(
        parse_train_arguments({"--model_name_or_path", model_.path().string(), "--task", "text-classification",
                               "--train_file", file_, "--output_dir", (model_.path() / "out").string(), "--max_steps",
                               std::to_string(steps), "--save_steps", "2", "--resume_from_checkpoint", "auto"}));
  };
  EXPECT_FALSE(with_auto(2).train.empty());
  EXPECT_TRUE(fs::exists(model_.path() / "out" / "checkpoint-2"));
  EXPECT_FALSE(with_auto(4).train.empty());  // from step 2; without `auto` it would be refused
  EXPECT_EQ(TrainerState::load(model_.path() / "out" / "trainer_state.json").global_step, 4);
}

}  // namespace
}  // namespace transom::dashboard
