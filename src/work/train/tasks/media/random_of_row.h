// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "base/numbers/mt19937.h"

namespace transom {

// What is drawn for one row of a batch: the same for equal seeds, draws (see TrainingData::augment) and places in the
// batch, whichever thread prepares the row.
inline Mt19937 random_of_row(int64_t seed, uint64_t draw, uint64_t place) {
  return Mt19937((static_cast<uint64_t>(seed) * 0x9E3779B9u + draw) * 0x85EBCA6Bu + place);
}

}  // namespace transom
