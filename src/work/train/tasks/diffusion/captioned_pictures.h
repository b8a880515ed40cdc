// SPDX-License-Identifier: Apache-2.0
// Tables of pictures and captions, to train a part of Stable Diffusion on: files of rows, or a folder of pictures with
// its metadata.jsonl or metadata.csv.
#pragma once

#include "work/train/tasks/diffusion/latent_training.h"

namespace transom {

// `controlled`: each row has a second picture, which a ControlNet sees.
void prepare_captioned(const TrainArguments& arguments, const TaskFiles& files, TaskSetup& setup, bool controlled,
                       const std::function<std::unique_ptr<LatentTraining>()>& begin);

}  // namespace transom
