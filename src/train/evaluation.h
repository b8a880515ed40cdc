// SPDX-License-Identifier: Apache-2.0
// A model over a whole data set.
#pragma once

#include <functional>

#include "train/train_step.h"
#include "transom/trainer.h"

namespace transom {

using OutputFilter = std::function<NamedTensors(const NamedTensors& outputs)>;

// Where several processes train, each evaluates its share of the rows, and all get the predictions of all.
// `keep` makes of a batch's outputs what the predictions hold; all of them where it is empty.
Predictions evaluate_model(TrainStep& step, const TrainingData& data, int64_t batch_size,
                           const OutputFilter& keep = {});

}  // namespace transom
