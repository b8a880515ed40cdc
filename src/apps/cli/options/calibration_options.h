// SPDX-License-Identifier: Apache-2.0
// What the commands that compress a model layer by layer have in common.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "apps/cli/command.h"

namespace transom {

// Where the flags for the texts of a calibration go.
struct CalibrationTargets {
  std::string *calibration_file, *validation_file;
  int64_t *samples, *length;
  double* max_memory;
};
// Their rows; `methods` names those that need a text, `judged` what the validation tells before and after.
std::vector<Option> calibration_options(const CalibrationTargets& targets, const std::string& methods,
                                        const std::string& judged);

// A bar that goes on with each layer, on a terminal; drawn from the first layer on, gone with the last copy.
std::function<void(int64_t done, int64_t total, const std::string& layer)> layer_bar(const std::string& title);

}  // namespace transom
