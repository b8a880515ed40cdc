// SPDX-License-Identifier: Apache-2.0
// Where a pass of the engine and a pass of training part: the first operation whose numbers differ.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "models/generative.h"

namespace transom::certify {

// Row `row` of a batch in training, whose text begins at place `begin` and has `tokens`.
struct TrainedText {
  NamedTensors inputs;
  int64_t rows = 1, length = 0;  // of input_ids
  int64_t row = 0, begin = 0;
  std::vector<int64_t> tokens;
};

// "model.layers.0.mlp: linear at token 3: ...", where the text is computed beside others in training, alone in
// training, alone by the engine and beside `company` by the engine: of the first two of these that differ. Whatever is
// equal as an operation of its own and differs in a program is said to do so.
std::string first_difference(const GenerativeModel& model, const TrainedText& trained,
                             const std::vector<int64_t>& company);

}  // namespace transom::certify
