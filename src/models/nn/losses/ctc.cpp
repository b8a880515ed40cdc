// SPDX-License-Identifier: Apache-2.0
#include "models/nn/losses/ctc.h"

#include "base/error.h"
#include "graph/ops/rows/ctc.h"
#include "models/nn/losses/loss_divisors.h"

namespace transom {

Tensor ctc_loss_of_logits(const Tensor& logits, const Tensor& labels, const Tensor& frames, const CtcOptions& options,
                          const ForwardContext& context) {
  if (labels.rank() != 2 || labels.dim(0) != logits.dim(0))
    fail("labels of {} do not fit logits of {}: expected [batch, label length]", to_string(labels.shape()),
         to_string(logits.shape()));
  if (options.reduction != "sum" && options.reduction != "mean")
    fail("config.json: ctc_loss_reduction: expected sum or mean, found {}", quoted(options.reduction));
  const int64_t B = labels.dim(0), L = labels.dim(1);
  const Tensor ids = cast(labels, DType::kInt64);
  const auto is_not = [&](int64_t id) {
    return not_equal(ids, full(ids.shape(), static_cast<double>(id), DType::kInt64));
  };
  // Labels move up to where padding stood before them.
  const Tensor counted = cast(logical_and(is_not(-100), is_not(options.blank)), DType::kInt64);
  const Tensor place = cumulative_sum(counted, 1) * counted - 1.0;  // -1: padding
  const Shape all{B, L, L};                                         // [row, new place, old place]
  const Tensor chosen = equal(broadcast_to(unsqueeze(place, 1), all), iota(all, 1));
  const Tensor targets =
      reduce_sum(select(chosen, broadcast_to(unsqueeze(ids, 1), all), full(all, 0, DType::kInt64)), {2});
  const Tensor lengths = reduce_sum(counted, {1});

  const Tensor log_probabilities = log_softmax(cast(logits, DType::kFloat32), context.computing);
  Tensor losses = ctc_loss(log_probabilities, targets, frames, lengths, options.blank, context.computing);
  if (options.zero_infinity) losses = select(is_finite(losses), losses, full(losses.shape(), 0));
  if (options.reduction == "sum") return sum_of(sum(losses), context);
  const Tensor divisors = maximum(cast(lengths, DType::kFloat32), full({B}, 1));
  return mean_of_all(losses / divisors, context);
}

}  // namespace transom
