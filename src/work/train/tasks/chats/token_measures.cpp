// SPDX-License-Identifier: Apache-2.0
#include "work/train/tasks/chats/token_measures.h"

#include "transom/batch.h"
#include "transom/gradients.h"
#include "transom/ops.h"

namespace transom {

Tensor entropies(const Tensor& logits) {
  const Tensor logs = log_softmax(cast(logits, DType::kFloat32), kAsGiven);
  return -reduce_sum(exp(logs) * logs, {-1});
}

BatchMeasures token_measures() {
  const auto sums = [](const NamedTensors& inputs, const NamedTensors& outputs) {
    const NoGradient only_numbers;
    if (const Tensor made = outputs.find("token_measures"); made.defined())
      return concatenate({made, slice(made, 0, 2, 3)}, 0);
    const Tensor logits = outputs.at("logits").detach(), labels = cast(inputs.at("labels"), DType::kInt64);
    const int64_t length = labels.dim(1);
    const Tensor predicting = slice(logits, 1, 0, length - 1), next = slice(labels, 1, 1, length);
    const Tensor counts = cast(not_equal(next, full(next.shape(), kIgnoredLabel, DType::kInt64)), DType::kFloat32);
    const Tensor right = cast(equal(cast(arg_max(predicting, -1), DType::kInt64), next), DType::kFloat32);
    const Tensor count = sum(counts);
    return joined_sums({sum(entropies(predicting) * counts), sum(right * counts)}, {count, count});
  };
  return {.names = {"entropy", "mean_token_accuracy"}, .sums = sums, .values = [](const Tensor& sums_of_batch) {
            return ratios_of(sums_of_batch);
          }};
}

}  // namespace transom
