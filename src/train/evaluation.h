// SPDX-License-Identifier: Apache-2.0
// A model over a whole data set.
#pragma once

#include <optional>

#include "train/train_step.h"
#include "transom/trainer.h"

namespace transom {

struct Evaluation {
  std::optional<double> loss;  // the mean over rows of their batch's loss; nothing without labels
  Predictions predictions;
};

Evaluation evaluate_model(const TrainStep& step, const TrainingData& data, int64_t batch_size);

}  // namespace transom
