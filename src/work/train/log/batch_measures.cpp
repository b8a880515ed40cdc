// SPDX-License-Identifier: Apache-2.0
#include "work/train/log/batch_measures.h"

#include "base/error.h"
#include "transom/ops.h"

namespace transom {

Tensor joined_sums(const std::vector<Tensor>& totals, const std::vector<Tensor>& counts) {
  std::vector<Tensor> all;
  for (const auto* part : {&totals, &counts})
    for (const Tensor& each : *part) all.push_back(reshape(cast(each, DType::kFloat32), {1}));
  return concatenate(all, 0);
}

Tensor ratios_of(const Tensor& sums, bool skips_empty) {
  const int64_t names = sums.dim(0) / 2;
  const Tensor totals = slice(sums, 0, 0, names), counts = slice(sums, 0, names, 2 * names);
  // Less than any count, also where it is the mean of several processes.
  const Tensor values = totals / maximum(counts, full(counts.shape(), 1e-6));
  const Tensor has =
      skips_empty ? cast(greater(counts, full(counts.shape(), 0)), DType::kFloat32) : full(counts.shape(), 1);
  return concatenate({reshape(values, {1, names}), reshape(has, {1, names})}, 0);
}

Tensor added_values(const std::vector<Tensor>& batches) {
  Tensor total;
  for (const Tensor& values : batches) {
    const Tensor has = slice(values, 0, 1, 2);
    const Tensor counted = concatenate({slice(values, 0, 0, 1) * has, has}, 0);
    total = total.defined() ? total + counted : counted;
  }
  return total;
}

void MeasureMeans::add(const std::vector<float>& values) {
  totals_.resize(values.size());
  for (size_t i = 0; i < values.size(); ++i) totals_[i] += values[i];
}

std::vector<std::optional<double>> MeasureMeans::means() const {
  std::vector<std::optional<double>> result;
  const size_t names = totals_.size() / 2;
  for (size_t i = 0; i < names; ++i) {
    const double count = totals_[names + i];
    result.push_back(count > 0 ? std::optional(totals_[i] / count) : std::nullopt);
  }
  return result;
}

}  // namespace transom
