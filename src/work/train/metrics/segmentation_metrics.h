// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <string>
#include <vector>

#include "transom/trainer.h"

namespace transom {

// How well classes of pixels are found, as evaluate's mean_iou has it: mean_iou, mean_accuracy, overall_accuracy, and
// of each class accuracy_NAME and iou_NAME. `counts` are pixels [classes, classes], by the label and by what was found.
// A class that nothing can be said of (no pixel has it) is left out, of the means as well.
Metrics segmentation_metrics(std::span<const double> counts, const std::vector<std::string>& classes);

}  // namespace transom
