// SPDX-License-Identifier: Apache-2.0
// train_text_to_image of diffusers, with its relatives for LoRA and XL: pictures and captions.
#include "work/train/tasks/diffusion/captioned_pictures.h"
#include "work/train/tasks/tasks.h"

namespace transom {

void text_to_image_defaults(TrainArguments& arguments) {
  latent_training_defaults(arguments, {.learning_rate = 1e-4, .rows = 16, .epochs = 100});
}

void prepare_text_to_image(const TrainArguments& arguments, const TaskFiles& files, TaskSetup& setup) {
  prepare_captioned(arguments, files, setup, false, [&] {
    return std::make_unique<LatentTraining>(arguments, resampling_named(arguments.script.image_interpolation_mode),
                                            setup);
  });
}

}  // namespace transom
