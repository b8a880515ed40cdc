// SPDX-License-Identifier: Apache-2.0
#include "work/train/tasks/preferences/objectives/log_probabilities.h"

#include "transom/batch.h"
#include "transom/gradients.h"
#include "transom/ops.h"
#include "work/train/tasks/chats/token_measures.h"

namespace transom {
namespace {

Tensor predicting(const Tensor& logits) { return cast(slice(logits, 1, 0, logits.dim(1) - 1), DType::kFloat32); }

}  // namespace

AnswerMask answer_mask(const Tensor& ids, const Tensor& completion_mask) {
  const int64_t length = ids.dim(1);
  AnswerMask mask;
  mask.ids = ids;
  const Tensor counted = slice(completion_mask, 1, 1, length), next = slice(ids, 1, 1, length);
  mask.counted = cast(counted, DType::kFloat32);
  mask.labels = select(equal(counted, full(counted.shape(), 0, DType::kInt64)),
                       full(next.shape(), static_cast<double>(kIgnoredLabel), DType::kInt64), next);
  mask.lengths = reduce_sum(cast(completion_mask, DType::kFloat32), {1});
  return mask;
}

Tensor log_probabilities(const Tensor& logits, const AnswerMask& mask) {
  const int64_t classes = logits.dim(-1);
  const Tensor rows = reshape(predicting(logits), {-1, classes});
  return -reshape(cross_entropy(rows, reshape(mask.labels, {-1}), kIgnoredLabel, kAsGiven), mask.labels.shape());
}

Tensor summed_rows(const Tensor& values) { return reduce_sum(values, {1}); }

Tensor mean_logits(const Tensor& logits) {
  const NoGradient only_numbers;
  return mean(predicting(logits.detach()), {-1});
}

Tensor entropies_of_next(const Tensor& logits) {
  const NoGradient only_numbers;
  return entropies(predicting(logits.detach()));
}

Tensor right_predictions(const Tensor& logits, const AnswerMask& mask) {
  const NoGradient only_numbers;
  const Tensor found = cast(arg_max(predicting(logits.detach()), -1), DType::kInt64);
  return cast(equal(found, mask.labels), DType::kFloat32);
}

Tensor log_sums_of_squares(const Tensor& logits) {
  const NoGradient only_numbers;
  return log(reduce_sum(exp(log_softmax(predicting(logits.detach()), kAsGiven) * 2.0), {2}));
}

Tensor log_sigmoid(const Tensor& x) { return -softplus(-x); }

Tensor of_pairs(const Tensor& x, int64_t which) {
  Shape pairs{x.dim(0) / 2, 2};
  pairs.insert(pairs.end(), x.shape().begin() + 1, x.shape().end());
  Shape rows = pairs;
  rows.erase(rows.begin() + 1);
  return reshape(slice(reshape(x, pairs), 1, which, which + 1), rows);
}

}  // namespace transom
