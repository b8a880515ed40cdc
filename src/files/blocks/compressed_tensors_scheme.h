// SPDX-License-Identifier: Apache-2.0
// What quantization_config of compressed-tensors says of all weights.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <vector>

#include "files/config/config.h"

namespace transom {

// Rows and inputs of a matrix, or how many parts of them there are.
struct ScalePart {
  int64_t rows = 0, depth = 0;
};

struct CompressedTensorsScheme {
  // Refuses formats, rotations of inputs and sparse forms that are not read.
  explicit CompressedTensorsScheme(const Config& config);

  // What one scale counts for where a matrix has a grid of them: a group or a block of config_groups that gives such a
  // grid (its last ones may be shorter), else even parts of each row, or the whole matrix. Nothing where none fits.
  std::optional<ScalePart> part_of_scale(const ScalePart& matrix, const ScalePart& grid) const;

  bool by_token = false;          // any group rounds inputs to 8 bits by token
  bool zeros_everywhere = false;  // all groups have zero points
  std::set<int64_t> bits;         // of weights

 private:
  std::vector<ScalePart> parts_;  // that config_groups names
};

}  // namespace transom
