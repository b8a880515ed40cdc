// SPDX-License-Identifier: Apache-2.0
#include "work/train/log/batch_measures.h"

#include "transom/ops.h"

namespace transom {

Tensor mean_measures(const std::vector<Tensor>& batches) {
  Tensor total;
  for (const Tensor& sums : batches) {
    const int64_t names = sums.dim(0) - 1;
    // Less than any count, also where it is the mean of several processes.
    const Tensor count = maximum(slice(sums, 0, names, names + 1), constant(1e-6, DType::kFloat32));
    const Tensor means = slice(sums, 0, 0, names) / count;
    total = total.defined() ? total + means : means;
  }
  return total * (1.0 / static_cast<double>(batches.size()));
}

}  // namespace transom
