// SPDX-License-Identifier: Apache-2.0
// Outputs and gradients of golden cases beside those that were computed here.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "base/json/json.h"
#include "support/sampled_values.h"
#include "transom/tensor.h"
#include "work/train/loop/model_inputs.h"

namespace transom::test {

// What a file of outputs or gradients holds.
inline std::vector<KeptValues> golden_values(const std::filesystem::path& file) {
  std::vector<KeptValues> all;
  for (const auto& [name, tensor] : load_inputs(file).items())
    all.push_back(kept_values(name, tensor.shape(), tensor.to_vector<double>()));
  return all;
}

// Which elements count: not the rows of (batch, position) whose mask is 0. Empty: all.
inline std::vector<bool> counted_elements(const Tensor& tensor, const Tensor& mask) {
  if (!mask.defined() || mask.rank() != 2 || tensor.rank() < 2 || tensor.dim(0) != mask.dim(0) ||
      tensor.dim(1) != mask.dim(1))
    return {};
  const std::vector<int64_t> kept = mask.to_vector<int64_t>();
  std::vector<bool> counts(static_cast<size_t>(tensor.size()));
  for (size_t i = 0; i < counts.size(); ++i) counts[i] = kept[i * kept.size() / counts.size()] != 0;
  return counts;
}

// Nothing where `found` is what the case has, within its tolerance.
inline std::string golden_difference(const KeptValues& expected, const Tensor& found, const Json& tolerance,
                                     const Tensor& mask = {}) {
  if (found.shape() != expected.shape) return "the shape is " + to_string(found.shape());
  return difference(expected, found.to_vector<double>(), tolerance["atol"], tolerance["rtol"],
                    counted_elements(found, mask));
}

}  // namespace transom::test
