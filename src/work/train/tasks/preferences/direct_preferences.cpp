// SPDX-License-Identifier: Apache-2.0
// --task dpo, orpo and cpo: pairs of answers to train a policy on.
#include "base/error.h"
#include "work/train/arguments/task_defaults.h"
#include "work/train/tasks/preferences/objectives/odds_objective.h"
#include "work/train/tasks/preferences/preference_setup.h"
#include "work/train/tasks/preferences/preference_tasks.h"
#include "work/train/tasks/preferences/reference_setup.h"
#include "work/train/tasks/text/text_features.h"

namespace transom {
namespace {

using EncodePair = PairTokens (PreferenceEncoder::*)(const PreferenceRow&, const std::string&) const;

// A prompt that fills max_length leaves no answer to learn.
HeldAnswers held_pairs(const PreferenceSetup& common, const Dataset& data, EncodePair encode) {
  const PreferenceRows rows(data, /*finds_prompts=*/true);
  const std::vector<PairTokens> all =
      map_rows(data.size(), [&](int64_t i) { return (common.encoder().*encode)(rows.row(i), data.where(i)); });
  HeldAnswers held;
  std::vector<std::string> left_out;
  std::optional<std::string> changed;
  for (size_t i = 0; i < all.size(); ++i) {
    const auto row = static_cast<int64_t>(i);
    if (all[i].changed_prompt_tokens > 0 && !changed) changed = data.where(row);
    const auto fills = [&](const PromptedTokens& tokens) {
      return !common.keeps_end() && static_cast<int64_t>(tokens.prompt) >= common.max_length();
    };
    if (fills(all[i].chosen) || fills(all[i].rejected)) {
      left_out.push_back(data.where(row));
      continue;
    }
    for (const PromptedTokens* tokens : {&all[i].chosen, &all[i].rejected}) {
      HeldAnswers::Answer answer;
      answer.tokens = common.cut(*tokens);
      held.answers.push_back(std::move(answer));
    }
  }
  common.say_what_is_odd(left_out, data.size(), "their prompts alone fill", changed, data.name());
  return held;
}

struct BothData {
  std::shared_ptr<HeldAnswers> train, validation;
};

BothData prepare_pairs(PreferenceSetup& common, const TaskFiles& files, TaskSetup& setup, EncodePair encode) {
  const Dataset& any = files.any();
  const PreferenceRows first(any, true);
  common.reads(first.reads());
  const PreferenceRow row = first.row(0);
  common.expect_template(row.is_chat(), any.name());
  common.load_language_model();
  const auto held = [&](const std::optional<Dataset>& data) {
    return data ? std::make_shared<HeldAnswers>(held_pairs(common, *data, encode)) : nullptr;
  };
  const BothData both{held(files.train), held(files.validation)};
  if (both.train) setup.train = answer_data(both.train, common.padding());
  if (both.validation) setup.validation = answer_data(both.validation, common.padding());
  const PairTokens shown = (common.encoder().*encode)(row, any.where(0));
  common.show(common.cut(shown.chosen), common.cut(shown.rejected), any.where(0));
  common.finish();
  return both;
}

}  // namespace

void preference_defaults(TrainArguments& arguments) {
  const TrainingArguments usual;
  TrainingArguments& training = arguments.training;
  set_default(arguments, "learning_rate", training.learning_rate, usual.learning_rate, 1e-6);
  set_default(arguments, "logging_steps", training.logging_steps, usual.logging_steps, 10.0);
}

void prepare_direct_preferences(const TrainArguments& arguments, const TaskFiles& files, TaskSetup& setup) {
  const ScriptArguments& script = arguments.script;
  const DpoOptions options = dpo_options(script);
  PreferenceSetup common(arguments, files, setup);
  const BothData both = prepare_pairs(common, files, setup, &PreferenceEncoder::pair);
  add_reference(
      arguments, setup, common.padding(), {both.train, both.validation}, options.length_alpha,
      [options](std::shared_ptr<ReferencePolicy> reference, std::optional<ReferenceMoves> moves, bool drops_out) {
        return std::make_shared<DpoObjective>(options, std::move(reference), moves, drops_out);
      });
}

void prepare_odds_ratio(const TrainArguments& arguments, const TaskFiles& files, TaskSetup& setup) {
  PreferenceSetup common(arguments, files, setup);
  prepare_pairs(common, files, setup, &PreferenceEncoder::cut);
  setup.objective = std::make_shared<OddsObjective>(orpo_options(arguments.script));
}

void prepare_contrastive_preferences(const TrainArguments& arguments, const TaskFiles& files, TaskSetup& setup) {
  const OddsOptions options = cpo_options(arguments.script);
  PreferenceSetup common(arguments, files, setup);
  prepare_pairs(common, files, setup, &PreferenceEncoder::cut);
  setup.objective = std::make_shared<OddsObjective>(options);
}

}  // namespace transom
