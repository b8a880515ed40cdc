// SPDX-License-Identifier: Apache-2.0
// What training adds to clean samples, drawn row by row, and how much the loss of a row counts. B batch, C channels, H
// x W extents.
#pragma once

#include <span>
#include <string>

#include "base/numbers/mt19937.h"
#include "transom/batch.h"

namespace transom {

// What a batch has beside the clean samples and what tells the network of the text.
constexpr const char *kTimestep = "timestep",                // i64 [B]; of flows a number, as the network reads it
    *kNoise = "noise",                                       // [B, C, H, W]
        *kInputNoise = "input_noise",                        // what is added to the input where it is another
            *kKept = "kept_share", *kAdded = "added_share",  // [B, 1, 1, 1]: of the clean sample and of the noise
                                       *kRowWeight = "row_weight";  // [B, 1, 1, 1]; none: all count alike

// How much a row's loss counts, and whether its signal-to-noise ratio does.
struct RowCount {
  float factor = 1;
  bool by_ratio = true;
};

class DrawnNoise {
 public:
  virtual ~DrawnNoise() = default;
  // What the network says: epsilon, v_prediction, sample, or flow.
  virtual const std::string& prediction_type() const = 0;
  // The draws of each row begin where its generator stands. `counts`: of the rows; empty: the usual ones.
  virtual void draw(Batch& batch, int64_t channels, int64_t height, int64_t width, std::span<Mt19937> randoms,
                    std::span<const RowCount> counts) const = 0;
};

}  // namespace transom
