// SPDX-License-Identifier: Apache-2.0
// What a checkpoint of a run holds beside the model: optimizer.safetensors, scheduler.json, trainer_state.json.
#pragma once

#include <filesystem>

#include "work/train/files/trainer_state.h"
#include "work/train/loop/schedules.h"
#include "work/train/step/train_step.h"

namespace transom {

// Writes into a directory that holds the model already. trainer_state.json comes last: its presence marks a whole
// checkpoint.
void save_run(const std::filesystem::path& directory, TrainStep& step, const Schedule& schedule,
              const TrainerState& state, bool only_model);
// Of these the files that one process writes: all but the optimizer's.
void save_run_state(const std::filesystem::path& directory, const Schedule& schedule, const TrainerState& state,
                    bool only_model);
// Reads it back; the model's parameters are taken from the directory too.
void load_run(const std::filesystem::path& directory, Model& model, TrainStep& step, Schedule& schedule,
              TrainerState& state);
// Sets the parameters of a model to those of a directory; of a sharded one each process reads its parts alone, if the
// directory is that of a sharded checkpoint.
void load_parameters(const std::filesystem::path& directory, Model& model, ModelSharding* sharding);

}  // namespace transom
