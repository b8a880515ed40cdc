// SPDX-License-Identifier: Apache-2.0
// Sets the least important weights of a model's linear layers to zero.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "models/compression/calibration/calibration_texts.h"
#include "transom/model.h"

namespace transom {

struct PruneOptions {
  // magnitude: |w|; wanda: |w| times the norm of its input on a text (Sun et al., "A simple and effective pruning
  // approach for large language models", 2023), compared within each row.
  std::string method = "magnitude";
  double sparsity = 0.5;  // the part of each layer's weights that become zero
  // "2:4": of each 4 inputs in a row of a weight 2 are kept; in place of the sparsity. "16x16": blocks of 16 outputs by
  // 16 inputs are kept or cut whole, the sparsity is the part of the blocks.
  std::string pattern;
  CalibrationTextOptions texts;
  std::function<void(int64_t done, int64_t total, const std::string& layer)> on_layer = {};
};

struct PruneReport {
  struct Layer {
    std::string name;
    double sparsity = 0;  // the part of its weights that are zero
    // Root of the mean square of what was cut over that of the weight; with wanda, of the outputs' error over that of
    // the outputs, as the inputs' norms tell it.
    double error = 0;
  };
  std::vector<Layer> layers;
  int64_t weights = 0, zeros = 0;  // of these layers
  int64_t calibration_rows = 0;
  std::optional<double> loss_before, loss_after;  // mean of a token of language models, where there is a text
};

// Zeros in the linear layers of the numbered blocks of a model; heads and embeddings stay whole. With wanda each layer
// sees what the pruned layers before it give.
PruneReport prune_model(const Model& model, const CalibrationTexts& texts, const PruneOptions& options);

// The same from a directory to another, in the type of the checkpoint.
PruneReport prune_checkpoint(const std::string& source, const std::string& output, const PruneOptions& options);

}  // namespace transom
