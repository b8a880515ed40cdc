// SPDX-License-Identifier: Apache-2.0
// What TRL logs of a language model besides its loss: the entropy of its predictions and how many of them are right.
#pragma once

#include <cstdint>

#include "transom/trainer.h"

namespace transom {

// entropy (in nats) and mean_token_accuracy, over the tokens that have labels.
BatchMeasures token_measures();

// The same of an evaluation: what is kept of a batch's outputs, and the means of it, of each batch of `batch_rows` rows
// and of these over all.
NamedTensors kept_token_measures(const NamedTensors& outputs);
Metrics mean_token_measures(const Predictions& predictions, int64_t batch_rows);

}  // namespace transom
