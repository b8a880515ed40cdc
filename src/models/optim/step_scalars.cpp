// SPDX-License-Identifier: Apache-2.0
#include "models/optim/optimizers.h"
#include "transom/ops.h"

namespace transom {

std::vector<Tensor> upload_scalars(std::initializer_list<double> values) {
  if (values.size() == 1) return {Tensor::scalar(*values.begin())};
  std::vector<float> numbers;
  for (const double value : values) numbers.push_back(static_cast<float>(value));
  const auto count = static_cast<int64_t>(numbers.size());
  const Tensor table = Tensor::from(numbers, {count});
  std::vector<Tensor> scalars;
  for (int64_t i = 0; i < count; ++i) scalars.push_back(reshape(slice(table, 0, i, i + 1), {}));
  return scalars;
}

}  // namespace transom
