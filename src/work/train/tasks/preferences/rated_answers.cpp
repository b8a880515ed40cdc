// SPDX-License-Identifier: Apache-2.0
// --task kto: answers that are good or bad.
#include <cmath>

#include "base/error.h"
#include "base/terminal/log.h"
#include "work/train/arguments/task_defaults.h"
#include "work/train/tasks/preferences/objectives/kto_objective.h"
#include "work/train/tasks/preferences/preference_setup.h"
#include "work/train/tasks/preferences/preference_tasks.h"
#include "work/train/tasks/preferences/reference_setup.h"
#include "work/train/tasks/text/text_features.h"

namespace transom {
namespace {

// The divergence is estimated from prompts with answers of others: in each batch every prompt gets the answer of the
// row before it.
void add_other_answers(HeldAnswers& held, const PreferenceSetup& common, size_t batch) {
  std::vector<std::vector<int64_t>> prompts, answers;
  for (const HeldAnswers::Answer& each : held.answers) {
    const auto middle = each.tokens.ids.begin() + static_cast<std::ptrdiff_t>(each.tokens.prompt);
    prompts.emplace_back(each.tokens.ids.begin(), middle);
    answers.emplace_back(middle, each.tokens.ids.end());
  }
  for (size_t i = 0; i < held.answers.size(); ++i) {
    const size_t begin = i / batch * batch, end = std::min(begin + batch, held.answers.size());
    const std::vector<int64_t>& answer = answers[i > begin ? i - 1 : end - 1];
    PromptedTokens other{prompts[i], prompts[i].size()};
    other.ids.insert(other.ids.end(), answer.begin(), answer.end());
    other = common.cut(std::move(other));
    held.answers[i].other = std::move(other.ids);
    held.answers[i].other_prompt = other.prompt;
  }
}

HeldAnswers held_answers(const PreferenceSetup& common, const Dataset& data, std::optional<size_t> batch) {
  const AnswerRows rows(data);
  struct Made {
    AnswerTokens tokens;
    bool good = false;
  };
  const std::vector<Made> all = map_rows(rows.size(), [&](int64_t i) {
    const AnswerRow row = rows.row(i);
    return Made{common.encoder().answer(row, rows.where(i)), row.good};
  });
  HeldAnswers held;
  held.pairs = false;
  std::vector<std::string> left_out;
  std::optional<std::string> changed;
  for (size_t i = 0; i < all.size(); ++i) {
    const auto row = static_cast<int64_t>(i);
    if (all[i].tokens.changed_prompt_tokens > 0 && !changed) changed = rows.where(row);
    if (static_cast<int64_t>(all[i].tokens.answer.prompt) >= common.max_length()) {
      left_out.push_back(rows.where(row));
      continue;
    }
    HeldAnswers::Answer answer;
    answer.tokens = all[i].tokens.answer;
    answer.value = all[i].good ? 1.0f : 0.0f;
    held.answers.push_back(std::move(answer));
  }
  common.say_what_is_odd(left_out, rows.size(), "their prompts alone fill", changed, data.name());
  if (batch) add_other_answers(held, common, *batch);
  for (HeldAnswers::Answer& answer : held.answers) answer.tokens = common.cut(std::move(answer.tokens));
  return held;
}

// Eq. (8) of the paper: between 1 and 4/3 times as much weight on all good answers as on all bad ones.
void advise_on_weights(const HeldAnswers& held, const ScriptArguments& script) {
  double good = 0;
  for (const HeldAnswers::Answer& answer : held.answers) good += *answer.value;
  const double bad = std::max(static_cast<double>(held.answers.size()) - good, 1.0);
  good = std::max(good, 1.0);
  const double ratio = good * script.desirable_weight / (bad * script.undesirable_weight);
  if (good == bad || (ratio > 0.99 && ratio < 1.34)) return;
  log(LogLevel::kWarning,
      fmt::format("{} good answers and {} bad ones: a --desirable_weight of {:.2f} to {:.2f} would give both as much "
                  "weight",
                  good, bad, bad * script.undesirable_weight / good, 1.33 * bad * script.undesirable_weight / good));
}

}  // namespace

void rated_answer_defaults(TrainArguments& arguments) {
  preference_defaults(arguments);
  const TrainingArguments usual;
  TrainingArguments& training = arguments.training;
  set_default(arguments, "train_sampling_strategy", training.train_sampling_strategy, usual.train_sampling_strategy,
              std::string("sequential"));
}

void prepare_rated_answers(const TrainArguments& arguments, const TaskFiles& files, TaskSetup& setup) {
  const ScriptArguments& script = arguments.script;
  const std::string type = script.loss_type.empty() ? "kto" : script.loss_type[0];
  if (script.loss_type.size() > 1 || (type != "kto" && type != "apo_zero_unpaired"))
    fail(ErrorKind::kUsage, "--loss_type: expected kto or apo_zero_unpaired, found {}",
         fmt::join(script.loss_type, ", "));
  const bool estimates = type == "kto";
  const TrainingArguments& training = arguments.training;
  if (estimates && training.do_train && training.per_device_train_batch_size < 2)
    fail(ErrorKind::kUsage,
         "--per_device_train_batch_size: expected at least 2, found 1: the divergence is estimated from answers of "
         "other "
         "rows of a batch");
  if (estimates && training.train_sampling_strategy != "sequential")
    fail(ErrorKind::kUsage,
         "--train_sampling_strategy: expected sequential, found {}: the divergence is estimated from the rows that are "
         "a "
         "batch in the file's order",
         training.train_sampling_strategy);
  PreferenceSetup common(arguments, files, setup);
  const Dataset& any = files.any();
  const AnswerRows first(any);
  common.reads(first.reads());
  const AnswerRow row = first.row(0);
  common.expect_template(row.is_chat(), any.name());
  common.load_language_model();
  const std::optional<size_t> batch =
      estimates ? std::optional(static_cast<size_t>(training.per_device_train_batch_size)) : std::nullopt;
  const auto held = [&](const std::optional<Dataset>& data) {
    return data ? std::make_shared<HeldAnswers>(held_answers(common, *data, batch)) : nullptr;
  };
  const std::shared_ptr<HeldAnswers> train = held(files.train), validation = held(files.validation);
  if (train) advise_on_weights(*train, script);
  if (train) setup.train = answer_data(train, common.padding());
  if (validation) setup.validation = answer_data(validation, common.padding());
  common.show(common.cut(common.encoder().answer(row, first.where(0)).answer), {}, first.where(0));
  common.finish();
  const KtoOptions options{.beta = script.beta,
                           .desirable_weight = script.desirable_weight,
                           .undesirable_weight = script.undesirable_weight,
                           .estimates_divergence = estimates};
  add_reference(
      arguments, setup, common.padding(), {train, validation}, std::nullopt,
      [options](std::shared_ptr<ReferencePolicy> reference, std::optional<ReferenceMoves> moves, bool drops_out) {
        return std::make_shared<KtoObjective>(options, std::move(reference), moves, drops_out);
      });
}

}  // namespace transom
