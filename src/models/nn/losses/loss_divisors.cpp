// SPDX-License-Identifier: Apache-2.0
#include "models/nn/losses/loss_divisors.h"

#include "base/error.h"
#include "transom/ops.h"

namespace transom {

Tensor LossDivisors::divisor(const Tensor& count) {
  const size_t place = counts_.size();
  counts_.push_back(count);
  if (given_.empty()) return count;
  if (place >= given_.size())
    fail("the loss of a part of the batch has more terms than that of the whole, {}", given_.size());
  return given_[place];
}

Tensor mean_of(const Tensor& sum, const Tensor& count, const ForwardContext& context) {
  return sum / (context.loss_divisors ? context.loss_divisors->divisor(count) : count);
}

Tensor mean_of_all(const Tensor& losses, const ForwardContext& context) {
  const double size = static_cast<double>(losses.size());
  if (!context.loss_divisors) return sum(losses) * (1.0 / size);
  return mean_of(sum(losses), Tensor::from(std::vector<float>{static_cast<float>(size)}, {}), context);
}

Tensor sum_of(const Tensor& sum, const ForwardContext& context) {
  if (context.loss_divisors) context.loss_divisors->adds_up();
  return sum;
}

}  // namespace transom
