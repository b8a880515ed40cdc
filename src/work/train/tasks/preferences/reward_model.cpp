// SPDX-License-Identifier: Apache-2.0
// --task reward: a model with one output, which is larger for the better one of two answers.
#include "base/error.h"
#include "work/train/arguments/task_defaults.h"
#include "work/train/tasks/preferences/objectives/reward_objective.h"
#include "work/train/tasks/preferences/preference_setup.h"
#include "work/train/tasks/preferences/preference_tasks.h"
#include "work/train/tasks/text/text_features.h"

namespace transom {
namespace {

// Longer rows are left out, not cut: a reward is for a whole answer.
HeldAnswers whole_pairs(const PreferenceSetup& common, const Dataset& data) {
  const PreferenceRows rows(data, /*finds_prompts=*/false);
  struct Made {
    PairTokens tokens;
    std::optional<double> margin;
  };
  const std::vector<Made> all = map_rows(data.size(), [&](int64_t i) {
    const PreferenceRow row = rows.row(i);
    return Made{common.encoder().whole(row, data.where(i)), row.margin};
  });
  HeldAnswers held;
  std::vector<std::string> left_out;
  for (size_t i = 0; i < all.size(); ++i) {
    const auto longest = std::max(all[i].tokens.chosen.ids.size(), all[i].tokens.rejected.ids.size());
    if (static_cast<int64_t>(longest) > common.max_length()) {
      left_out.push_back(data.where(static_cast<int64_t>(i)));
      continue;
    }
    HeldAnswers::Answer chosen, rejected;
    chosen.tokens = all[i].tokens.chosen, rejected.tokens = all[i].tokens.rejected;
    if (all[i].margin) chosen.value = static_cast<float>(*all[i].margin);
    held.answers.push_back(std::move(chosen));
    held.answers.push_back(std::move(rejected));
  }
  common.say_what_is_odd(left_out, data.size(), "an answer is longer than", std::nullopt, data.name());
  return held;
}

}  // namespace

void reward_defaults(TrainArguments& arguments) {
  const TrainingArguments usual;
  TrainingArguments& training = arguments.training;
  set_default(arguments, "learning_rate", training.learning_rate, usual.learning_rate, 1e-4);
  set_default(arguments, "logging_steps", training.logging_steps, usual.logging_steps, 10.0);
}

void prepare_reward_model(const TrainArguments& arguments, const TaskFiles& files, TaskSetup& setup) {
  PreferenceSetup common(arguments, files, setup);
  const Dataset& any = files.any();
  const PreferenceRows first(any, false);
  common.reads(first.reads());
  const PreferenceRow row = first.row(0);
  common.expect_template(row.is_chat(), any.name());
  common.load_reward_model();
  const auto data_of = [&](const Dataset& data) {
    if (PreferenceRows(data, false).has_margins() != first.has_margins())
      fail("{}: expected the columns of {}, which differ in margin", data.name(), any.name());
    return answer_data(std::make_shared<HeldAnswers>(whole_pairs(common, data)), common.padding());
  };
  if (files.train) setup.train = data_of(*files.train);
  if (files.validation) setup.validation = data_of(*files.validation);
  const PairTokens shown = common.encoder().whole(row, any.where(0));
  common.show(shown.chosen, shown.rejected, any.where(0));
  setup.objective =
      std::make_shared<RewardObjective>(arguments.script.center_rewards_coefficient, !arguments.script.disable_dropout);
  common.finish();
}

}  // namespace transom
