// SPDX-License-Identifier: Apache-2.0
// What Python's Trainer leaves in a checkpoint beside the model: optimizer.pt and scheduler.pt.
#pragma once

#include <filesystem>

#include "work/train/loop/schedules.h"
#include "work/train/step/train_step.h"

namespace transom {

// Whether the directory has an optimizer of PyTorch.
bool is_torch_checkpoint(const std::filesystem::path& directory);
// Takes over the moments of all parameters and the state of the schedule. Errors name the file, and the parameter whose
// shape is another. The state of the random generators (dropout) cannot be taken over, which a line of the log says.
void load_torch_run(const std::filesystem::path& directory, const Model& model, TrainStep& step, Schedule& schedule,
                    int64_t global_step);

}  // namespace transom
