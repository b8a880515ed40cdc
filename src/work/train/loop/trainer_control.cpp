// SPDX-License-Identifier: Apache-2.0
#include "work/train/loop/trainer_control.h"

#include <cmath>

#include "base/error.h"
#include "base/json/json.h"
#include "base/json/json_errors.h"

namespace transom {
namespace {

bool is_multiple(int64_t step, double of) { return of > 0 && std::fmod(static_cast<double>(step), of) == 0; }

}  // namespace

TrainerControl after_step(const TrainingArguments& arguments, const TrainerState& state) {
  const int64_t step = state.global_step;
  TrainerControl decisions;
  decisions.log = (step == 1 && arguments.logging_first_step) ||
                  (arguments.logging_strategy == "steps" && is_multiple(step, state.logging_steps));
  decisions.save = arguments.save_strategy == "steps" && is_multiple(step, state.save_steps);
  decisions.stop = step >= state.max_steps;
  // The last update is evaluated and saved wherever it falls.
  const bool may_evaluate = arguments.eval_strategy == "steps" && arguments.eval_delay <= static_cast<double>(step);
  decisions.evaluate = may_evaluate && (decisions.stop || is_multiple(step, state.eval_steps));
  if (decisions.stop && arguments.save_strategy == "steps") decisions.save = true;
  return decisions;
}

TrainerControl after_epoch(const TrainingArguments& arguments, const TrainerState& state) {
  return {.log = arguments.logging_strategy == "epoch",
          .evaluate = arguments.eval_strategy == "epoch" && arguments.eval_delay <= state.epoch,
          .save = arguments.save_strategy == "epoch"};
}

bool EarlyStopping::observe(double metric, std::optional<double> best, bool greater_is_better) {
  const bool better =
      !best || ((greater_is_better ? metric > *best : metric < *best) && std::abs(metric - *best) > threshold_);
  worse_ = better ? 0 : worse_ + 1;
  return worse_ >= patience_;
}

JsonText EarlyStopping::state() const {
  const Json json = {{"args", {{"early_stopping_patience", patience_}, {"early_stopping_threshold", threshold_}}},
                     {"attributes", {{"early_stopping_patience_counter", worse_}}}};
  return {dump_json(json)};
}

void EarlyStopping::load(const JsonText& state) {
  try {
    worse_ =
        parse_json(state.text, "early stopping").at("attributes").at("early_stopping_patience_counter").get<int64_t>();
  } catch (const Json::exception& error) {
    fail("early stopping: expected a state with early_stopping_patience_counter: {}", json_reason(error));
  }
}

}  // namespace transom
