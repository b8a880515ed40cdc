// SPDX-License-Identifier: Apache-2.0
#include "train/loop/run_checks.h"

#include <cmath>

#include "base/error.h"
#include "base/terminal/log.h"
#include "transom/ops.h"

namespace transom {

std::optional<std::string> asks_for_evaluation(const TrainingArguments& arguments) {
  if (arguments.load_best_model_at_end) return "load_best_model_at_end";
  if (arguments.eval_strategy != "no") return "eval_strategy " + arguments.eval_strategy;
  if (arguments.eval_on_start) return "eval_on_start";
  return std::nullopt;
}

void compare_epochs(const std::filesystem::path& checkpoint, const TrainerState& state, double epoch) {
  if (std::abs(epoch - state.epoch) <= 1e-6) return;
  log(LogLevel::kWarning,
      fmt::format("{}: step {} was at epoch {:.4g}, and is at epoch {:.4g} of this run: the number of rows, the batch "
                  "size or the number of processes differs, so the resumed run does not see the rows that were left",
                  checkpoint.string(), state.global_step, state.epoch, epoch));
}

std::optional<std::string> broken_weight(const Model& model) {
  for (const auto& parameter : model.parameters())
    for (const float value : parameter->value.to_vector<float>())
      if (!std::isfinite(value)) return parameter->name;
  return std::nullopt;
}

std::string way_out_of_nan(const std::optional<std::string>& last_checkpoint) {
  const std::string advice = "a lower --learning_rate or --max_grad_norm";
  if (!last_checkpoint) return fmt::format("no checkpoint was written before; train again with {}", advice);
  return fmt::format(
      "the last good checkpoint is {}; train from its weights with --model_name_or_path {}, another "
      "--output_dir and {}",
      *last_checkpoint, *last_checkpoint, advice);
}

}  // namespace transom
