// SPDX-License-Identifier: Apache-2.0
// A model over a whole data set.
#pragma once

#include <functional>

#include "train/train_step.h"
#include "transom/trainer.h"

namespace transom {

// Makes of a batch's outputs, or of its inputs, what the predictions hold.
using OutputFilter = std::function<NamedTensors(const NamedTensors&)>;

// Where several processes train, each evaluates its share of the rows, and all get the predictions of all.
// `keep` is given the outputs; where it is empty, all of them are kept. Where `predict` is set, what it makes of the
// inputs is kept in their place.
Predictions evaluate_model(TrainStep& step, const TrainingData& data, int64_t batch_size, const OutputFilter& keep = {},
                           const OutputFilter& predict = {});

}  // namespace transom
