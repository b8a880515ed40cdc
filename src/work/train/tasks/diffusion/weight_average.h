// SPDX-License-Identifier: Apache-2.0
// The moving average of a model's weights over its updates, as EMAModel of Diffusers keeps it. Early updates count for
// little of it: the share that it keeps grows with their number.
#pragma once

#include <filesystem>
#include <memory>
#include <utility>
#include <vector>

#include "transom/model.h"

namespace transom {

class WeightAverage {
 public:
  struct Growth {
    double most = 0.9999;   // that is kept
    bool by_power = false;  // 1 - (1 + steps / gamma) ^ -power; else (1 + steps) / (10 + steps)
    double gamma = 1, power = 2.0 / 3;
  };
  WeightAverage(const Model& model, Growth growth);

  // The share of the average that update `steps`, counted from 1, keeps.
  double kept(int64_t steps) const;
  void update(const Model& model, int64_t steps);

  // As a file of the model's weights.
  void write(const std::filesystem::path& file) const;
  // In the directory of a checkpoint.
  void save(const std::filesystem::path& directory) const;
  void load(const std::filesystem::path& directory);

 private:
  Growth growth_;
  std::vector<std::pair<std::string, Tensor>> values_;
};

}  // namespace transom
