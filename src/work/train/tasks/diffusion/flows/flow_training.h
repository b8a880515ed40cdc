// SPDX-License-Identifier: Apache-2.0
// What the scripts of Stable Diffusion 3 and FLUX ask otherwise than those of U-Nets: train_dreambooth_sd3, _flux, and
// their relatives for LoRA.
#pragma once

#include "work/train/tasks/diffusion/latent_training.h"

namespace transom {

// Of a pipeline of flows their defaults, and what --lora_blocks names; of another one `given`.
LatentDefaults flow_training_defaults(TrainArguments& arguments, const LatentDefaults& given);
// Refuses by name what the networks of a pipeline do not take. `flow`: null for a U-Net.
void expect_arguments_of(const ScriptArguments& script, const FlowPipeline* flow, const std::string& pipeline);

}  // namespace transom
