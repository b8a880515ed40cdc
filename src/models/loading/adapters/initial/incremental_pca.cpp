// SPDX-License-Identifier: Apache-2.0
#include "models/loading/adapters/initial/incremental_pca.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "models/loading/adapters/initial/decompositions.h"

namespace transom {

void IncrementalPca::fit(const std::vector<float>& rows, int64_t width) {
  const auto wide = static_cast<size_t>(width);
  const int64_t count = static_cast<int64_t>(rows.size()) / width, before = seen_;
  if (before == 0) width_ = width, mean_.assign(wide, 0), squares_.assign(wide, 0);
  const auto n = static_cast<double>(count), m = static_cast<double>(before);
  std::vector<double> mean(wide, 0), squares(wide, 0);
  for (size_t i = 0; i < rows.size(); ++i) mean[i % wide] += rows[i] / n;
  for (size_t i = 0; i < rows.size(); ++i) squares[i % wide] += (rows[i] - mean[i % wide]) * (rows[i] - mean[i % wide]);

  // What is known of earlier rows, these rows around their mean, and how far both means are apart.
  std::vector<float> stack;
  for (int64_t k = 0; before > 0 && k < count_; ++k)
    for (size_t j = 0; j < wide; ++j)
      stack.push_back(
          static_cast<float>(values_[static_cast<size_t>(k)] * components_[static_cast<size_t>(k) * wide + j]));
  for (size_t i = 0; i < rows.size(); ++i) stack.push_back(static_cast<float>(rows[i] - mean[i % wide]));
  if (before > 0)
    for (size_t j = 0; j < wide; ++j)
      stack.push_back(static_cast<float>(std::sqrt(m / (m + n) * n) * (mean_[j] - mean[j])));

  for (size_t j = 0; j < wide; ++j) {
    const double apart = mean[j] - mean_[j];
    squares_[j] += squares[j] + (before > 0 ? apart * apart * m * n / (m + n) : 0);
    mean_[j] = (m * mean_[j] + n * mean[j]) / (m + n);
  }
  seen_ += count;

  PartOfSvd part = part_of_svd(stack, static_cast<int64_t>(stack.size()) / width, width, count_);
  for (auto row = part.right.begin(); row != part.right.end(); row += width) {
    const auto largest = std::max_element(row, row + width, [](float a, float b) { return std::abs(a) < std::abs(b); });
    if (*largest < 0) std::transform(row, row + width, row, std::negate<>());
  }
  components_ = std::move(part.right), values_ = std::move(part.values);
  const double all = std::accumulate(squares_.begin(), squares_.end(), 0.0);
  explained_.clear();
  for (const double value : values_) explained_.push_back(all > 0 ? value * value / all : 0);
}

}  // namespace transom
