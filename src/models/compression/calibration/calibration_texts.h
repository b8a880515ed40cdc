// SPDX-License-Identifier: Apache-2.0
// The texts that a method of compression looks at, and those that its result is judged by.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "transom/model.h"

namespace transom {

struct CalibrationTextOptions {
  std::string calibration_file;  // a text; empty: nothing is calibrated
  std::string validation_file;  // a text for perplexities; empty: some rows of the calibration's, which it does not see
  int64_t samples = 128, length = 512;  // rows and their tokens
  double max_memory = 4;                // GB for what the rows need in a layer: fewer rows above
};

// Rows of tokens.
struct CalibrationTexts {
  std::vector<std::vector<int64_t>> calibration, validation;
};

// By the tokenizer of the directory `source`, whose model this is. Rows are not longer than the model's positions.
CalibrationTexts read_calibration_texts(const Model& model, const std::string& source,
                                        const CalibrationTextOptions& options);

// The perplexity on the rows to judge by; nothing where there are none, or where the model predicts no next token.
std::optional<double> judged_perplexity(const Model& model, const CalibrationTexts& texts);

}  // namespace transom
