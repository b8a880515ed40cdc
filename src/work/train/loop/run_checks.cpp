// SPDX-License-Identifier: Apache-2.0
#include "work/train/loop/run_checks.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/terminal/log.h"
#include "models/records.h"
#include "transom/ops.h"

namespace transom {

std::optional<std::string> asks_for_evaluation(const TrainingArguments& arguments) {
  if (arguments.load_best_model_at_end) return "load_best_model_at_end";
  if (arguments.eval_strategy != "no") return "eval_strategy " + arguments.eval_strategy;
  if (arguments.eval_on_start) return "eval_on_start";
  return std::nullopt;
}

void expect_smoothable(const Model& model, const TrainingData& data) {
  Batch batch = data.batch({0});
  if (data.augment) data.augment(batch, 0);
  const bool classes = !batch.labels.empty() || batch.sequences.contains("labels");
  const Architecture* known = find_architecture(model);
  if (classes && !(known && *known->head.labels == HeadLabels::kCharacters)) return;
  fail(ErrorKind::kUsage, "label_smoothing_factor: is for labels that are classes; {} learns {}", model.architecture(),
       !batch.label_values.empty() ? "from numbers" : "without such");
}

DiskNeed disk_need(const TrainingArguments& arguments, const TrainerState& state, const Model& model) {
  // Numbers that the optimizers keep for each weight; Adafactor's are rows and columns.
  const std::string& optim = arguments.optim;
  const uint64_t kept = optim.starts_with("adamw") ? 2 : optim == "sgd" || optim == "adafactor" ? 0 : 1;
  DiskNeed need;
  uint64_t trained = 0;
  const auto bytes = [](const Tensor& value) { return static_cast<uint64_t>(value.size()) * size_of(value.dtype()); };
  for (const auto& parameter : model.parameters()) {
    if (parameter->value.requires_grad()) trained += bytes(parameter->value);
    if (parameter->value.requires_grad() || !model.adaptation()) need.model += bytes(parameter->value);
  }
  if (!model.adaptation())
    for (const auto& buffer : model.buffers()) need.model += bytes(buffer->value);
  need.checkpoint = need.model + (arguments.save_only_model ? 0 : kept * trained);
  const int64_t left = std::max<int64_t>(state.max_steps - state.global_step, 0);
  int64_t written = 0;
  if (arguments.save_strategy == "steps") {
    const auto every = std::max<int64_t>(static_cast<int64_t>(state.save_steps), 1);
    written = (left + every - 1) / every;
  } else if (arguments.save_strategy == "epoch") {
    written = static_cast<int64_t>(state.num_train_epochs);
  } else if (arguments.save_strategy == "best") {
    written = 1;
  }
  need.checkpoints = checkpoints_at_once(written, arguments.save_total_limit);
  return need;
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
