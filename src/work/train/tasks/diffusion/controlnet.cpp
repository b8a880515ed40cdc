// SPDX-License-Identifier: Apache-2.0
// train_controlnet of diffusers: pictures, their captions, and pictures by which they are to be drawn.
#include "base/error.h"
#include "work/train/tasks/diffusion/captioned_pictures.h"
#include "work/train/tasks/tasks.h"

namespace transom {

void controlnet_defaults(TrainArguments& arguments) {
  latent_training_defaults(arguments, {.learning_rate = 5e-6, .rows = 4, .epochs = 1});
}

void prepare_controlnet(const TrainArguments& arguments, const TaskFiles& files, TaskSetup& setup) {
  prepare_captioned(arguments, files, setup, true, [&] {
    return std::make_unique<LatentTraining>(arguments, Resampling::kBilinear, setup,
                                            LatentTraining::Trains::kControlNet);
  });
}

}  // namespace transom
