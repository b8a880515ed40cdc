// SPDX-License-Identifier: Apache-2.0
// The log of a training run as a picture: one self-contained SVG, for light and dark pages.
#pragma once

#include <string>

#include "work/train/files/trainer_state.h"

namespace transom {

// Losses of training and evaluation on the left axis, the first other metric of evaluation ("eval_accuracy") on the
// right one, over the steps. Empty where the log holds fewer than two losses.
std::string draw_training_curve(const TrainerState& state);

}  // namespace transom
