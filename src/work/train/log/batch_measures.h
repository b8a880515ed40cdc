// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "transom/tensor.h"

namespace transom {

// Of the sums that BatchMeasures gives for each batch, f32 [names + 1], the means, f32 [names]: of each batch, and of
// these over all, as TRL logs them. A batch that counts nothing gives 0.
Tensor mean_measures(const std::vector<Tensor>& batches);

}  // namespace transom
