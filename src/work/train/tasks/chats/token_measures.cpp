// SPDX-License-Identifier: Apache-2.0
#include "work/train/tasks/chats/token_measures.h"

#include <algorithm>

#include "transom/batch.h"
#include "transom/gradients.h"
#include "transom/ops.h"
#include "work/train/tasks/text/text_features.h"

namespace transom {
namespace {

Tensor entropies(const Tensor& logits) {
  const Tensor logs = log_softmax(cast(logits, DType::kFloat32), kAsGiven);
  return -reduce_sum(exp(logs) * logs, {-1});
}

}  // namespace

BatchMeasures token_measures() {
  const auto sums = [](const NamedTensors& inputs, const NamedTensors& outputs) {
    const NoGradient only_numbers;
    const Tensor logits = outputs.at("logits").detach(), labels = cast(inputs.at("labels"), DType::kInt64);
    const int64_t length = labels.dim(1);
    const Tensor predicting = slice(logits, 1, 0, length - 1), next = slice(labels, 1, 1, length);
    const Tensor counts = cast(not_equal(next, full(next.shape(), kIgnoredLabel, DType::kInt64)), DType::kFloat32);
    const Tensor right = cast(equal(cast(arg_max(predicting, -1), DType::kInt64), next), DType::kFloat32);
    const auto one = [](const Tensor& x) { return reshape(sum(x), {1}); };
    return concatenate({one(entropies(predicting) * counts), one(right * counts), one(counts)}, 0);
  };
  return {.names = {"entropy", "mean_token_accuracy"}, .sums = sums};
}

NamedTensors kept_token_measures(const NamedTensors& outputs) {
  const Tensor& logits = outputs.at("logits");
  return {{"predictions", arg_max(logits, -1)}, {"entropies", entropies(logits)}};
}

Metrics mean_token_measures(const Predictions& predictions, int64_t batch_rows) {
  const Predictions::Array* found = find_output(predictions, "predictions");
  const Predictions::Array* entropy = find_output(predictions, "entropies");
  if (!found || !entropy || found->shape.size() != 2 || predictions.labels.size() != found->values.size()) return {};
  const int64_t rows = found->shape[0], width = found->shape[1];
  double entropy_mean = 0, right_mean = 0;
  int64_t batches = 0;
  for (int64_t begin = 0; begin < rows; begin += batch_rows, ++batches) {
    double entropy_sum = 0, right = 0, count = 0;
    for (int64_t row = begin; row < std::min(rows, begin + batch_rows); ++row)
      for (int64_t place = row * width; place + 1 < (row + 1) * width; ++place) {
        const int64_t label = predictions.labels[static_cast<size_t>(place) + 1];
        if (label == kIgnoredLabel) continue;
        entropy_sum += entropy->values[static_cast<size_t>(place)];
        right += static_cast<int64_t>(found->values[static_cast<size_t>(place)]) == label;
        ++count;
      }
    if (count == 0) continue;
    entropy_mean += entropy_sum / count;
    right_mean += right / count;
  }
  if (batches == 0) return {};
  return {{"entropy", entropy_mean / static_cast<double>(batches)},
          {"mean_token_accuracy", right_mean / static_cast<double>(batches)}};
}

}  // namespace transom
