// SPDX-License-Identifier: Apache-2.0
#include "work/train/tasks/preferences/reference_setup.h"

#include "base/error.h"
#include "base/terminal/log.h"
#include "transom/distributed.h"
#include "work/train/setup/sharding_layout.h"
#include "work/train/step/train_step.h"

namespace transom {

void add_reference(const TrainArguments& arguments, TaskSetup& setup, const PaddingOptions& padding,
                   const std::vector<std::shared_ptr<HeldAnswers>>& data, std::optional<double> length_alpha,
                   const MakeReferred& make) {
  const ScriptArguments& script = arguments.script;
  if (script.sync_ref_model && script.precompute_ref_log_probs)
    fail(ErrorKind::kUsage,
         "--sync_ref_model: moves the reference, of which --precompute_ref_log_probs computes everything before; leave "
         "one of them out");
  std::optional<ReferenceMoves> moves;
  if (script.sync_ref_model)
    moves = ReferenceMoves{.alpha = script.ref_model_mixup_alpha, .every = script.ref_model_sync_steps};
  setup.complete = [&arguments, padding, data, length_alpha, make, moves](TaskSetup& whole) {
    const ScriptArguments& given = arguments.script;
    const bool drops_out = !given.disable_dropout;
    // The model as it is now, before the first update.
    if (!given.precompute_ref_log_probs) {
      whole.objective = make(std::make_shared<ReferencePolicy>(*whole.model), moves, drops_out);
      return;
    }
    const int64_t sizes[] = {arguments.training.per_device_train_batch_size,
                             arguments.training.per_device_eval_batch_size};
    const bool shares_rows = process_count() > 1 && sharding_layout(arguments.training, process_count()).shards();
    const BatchPadding of_batches = padding_of_batches(arguments.training, *whole.model, shares_rows, false);
    for (size_t i = 0; i < data.size(); ++i) {
      if (!data[i]) continue;
      if (!given.json) log(LogLevel::kInfo, fmt::format("the reference computes {} rows", data[i]->rows()));
      compute_reference(*data[i], *whole.model, computing_of(arguments.training, false), padding,
                        given.precompute_ref_batch_size.value_or(sizes[i]), length_alpha, of_batches);
    }
    whole.objective = make(nullptr, moves, drops_out);
  };
}

}  // namespace transom
