// SPDX-License-Identifier: Apache-2.0
// Bits by layer: those that lose most with 4 bits get 8, as long as the mean stays under a bound.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace transom {

// What a layer loses: squares of its relative error, of the weights or (calibrated) of the outputs.
struct LayerSensitivity {
  std::string name;
  int64_t weights = 0;
  double bits_of_4 = 4, bits_of_8 = 8;  // a weight's, its share of the scales included
  double loss_of_4 = 0, loss_of_8 = 0;
};

// 4 or 8 for each layer, so that the mean bits of a weight are at most `target`: layers get 8 bits in the order of what
// they gain for a bit, the first to fit first. A target below what 4 bits take is an error of use that says how many
// they are.
std::map<std::string, int> chosen_bits(const std::vector<LayerSensitivity>& layers, double target);

}  // namespace transom
