// SPDX-License-Identifier: Apache-2.0
// What is checked around a run: evaluations that have no data, a resumed run whose data are others, weights that are
// not finite.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "transom/model.h"
#include "transom/trainer.h"
#include "transom/training_arguments.h"
#include "work/train/files/disk_space.h"
#include "work/train/files/trainer_state.h"

namespace transom {

// The argument that asks for evaluations during training; nothing where none does.
std::optional<std::string> asks_for_evaluation(const TrainingArguments& arguments);

// Refuses label smoothing of labels that are no classes, for which Trainer has no meaning, so that it has an effect
// wherever it is asked for.
void expect_smoothable(const Model& model, const TrainingData& data);

// What a run of these arguments, whose steps are computed in `state`, writes to its disk from now on.
DiskNeed disk_need(const TrainingArguments& arguments, const TrainerState& state, const Model& model);

// Warns where the step of a checkpoint is at `epoch` of this run and was at another one of the run that wrote it.
void compare_epochs(const std::filesystem::path& checkpoint, const TrainerState& state, double epoch);

// The name of a weight that holds NaN or an infinite value.
std::optional<std::string> broken_weight(const Model& model);
// What to do then, as the end of an error.
std::string way_out_of_nan(const std::optional<std::string>& last_checkpoint);

}  // namespace transom
