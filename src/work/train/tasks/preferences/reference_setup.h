// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "work/train/tasks/preferences/objectives/dpo_objective.h"
#include "work/train/tasks/preferences/preference_batches.h"
#include "work/train/tasks/task_data.h"

namespace transom {

using MakeReferred = std::function<std::shared_ptr<Objective>(std::shared_ptr<ReferencePolicy> reference,
                                                              std::optional<ReferenceMoves> moves, bool drops_out)>;

// Gives the setup its objective: with a reference that is kept, or, with --precompute_ref_log_probs, with what it says
// of all rows. `data`: of training and of validation, null where there is none.
void add_reference(const TrainArguments& arguments, TaskSetup& setup, const PaddingOptions& padding,
                   const std::vector<std::shared_ptr<HeldAnswers>>& data, std::optional<double> length_alpha,
                   const MakeReferred& make);

}  // namespace transom
