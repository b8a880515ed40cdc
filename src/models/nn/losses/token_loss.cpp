// SPDX-License-Identifier: Apache-2.0
#include "models/nn/losses/token_loss.h"

#include <algorithm>

#include "base/error.h"
#include "graph/ops/rows/linear_cross_entropy.h"
#include "models/nn/losses/losses.h"
#include "models/nn/weight.h"
#include "models/nn/weight_adapter.h"
#include "transom/gradients.h"

namespace transom {
namespace {

constexpr double kNoTarget = -100;
// Fewer logits are kept: the products of few rows are slow, and there is little to save.
constexpr int64_t kMostLogits = int64_t{1} << 24;

// Of logits that are made together: whole tiles of processors, since products whose depth is odd are slow in 16 bits.
// `width`: of the weight where its gradient is made, which each group of rows adds to: the logits may then be as large
// as that, since fewer groups go through it fewer times; else 0.
int64_t rows_together(int64_t vocabulary, int64_t width = 0) {
  constexpr int64_t kTile = 32;
  const int64_t rows = std::max(kMostLogits / vocabulary, width);
  return rows < kTile ? 16 : rows / kTile * kTile;
}

Tensor counted_targets(const Tensor& targets) {
  return cast(not_equal(targets, full(targets.shape(), kNoTarget, DType::kInt64)), DType::kFloat32);
}

// The mean over the tokens with targets, as losses.h has it.
Tensor mean_over_targets(const Tensor& total, const Tensor& counted, const ForwardContext& context) {
  if (context.num_items_in_batch.defined()) return total / context.num_items_in_batch;
  return mean_of(total, sum(counted), context);
}

Tensor joined_measures(const Tensor& entropy, const Tensor& right, const Tensor& counted) {
  const auto one = [](const Tensor& x) { return reshape(sum(x), {1}); };
  return concatenate({one(entropy * counted), one(right * counted), one(counted)}, 0).detach();
}

Tensor measures_of_logits(const Tensor& logits, const Tensor& targets, const Tensor& counted) {
  const NoGradient only_numbers;
  const Tensor logs = log_softmax(cast(logits.detach(), DType::kFloat32), kAsGiven);
  const Tensor entropy = -reduce_sum(exp(logs) * logs, {-1});
  const Tensor right = cast(equal(cast(arg_max(logits.detach(), -1), DType::kInt64), targets), DType::kFloat32);
  return joined_measures(entropy, right, counted);
}

// Whether the product is of two plain matrices, and so may be taken apart.
bool is_plain(const LogitsHead& head, const Computing& computing) {
  return !head.weight.packed && head.weight.use != Parameter::Use::kTransposedLinear && !computing.int8 &&
         !computing.observer && !adapter_of(head.weight, computing);
}

TokenLosses in_rows(const LogitsHead& head, const Tensor& hidden, const Tensor& targets, const TokenLoss& how,
                    const ForwardContext& context) {
  const int64_t V = head.weight.value.dim(0), D = hidden.dim(-1), N = targets.size();
  LinearCrossEntropyOptions options{.multiplier = head.multiplier,
                                    .soft_cap = head.soft_cap,
                                    .dynamic = how.kind == TokenLoss::Kind::kDynamic,
                                    .measures = how.measures};
  options.gradient = context.training && gradients_enabled();
  options.weight_gradient = options.gradient && head.weight.value.requires_grad();
  options.rows = rows_together(V, options.weight_gradient ? D : 0);
  const Tensor flat = reshape(targets, {N}), counted = counted_targets(flat);
  const LinearCrossEntropy made =
      linear_cross_entropy(reshape(hidden, {N, D}), head.weight.value, head.bias ? head.bias->value : Tensor(), flat,
                           options, context.computing);
  TokenLosses result{.loss = mean_over_targets(made.total, counted, context)};
  if (how.measures) result.measures = joined_measures(made.entropy, made.right, counted);
  return result;
}

// The mean over the vocabulary of the logits of each token, which is a product with the mean row of the weight.
Tensor mean_logits_of(const LogitsHead& head, const Tensor& hidden) {
  const NoGradient only_numbers;
  const Tensor row = mean(cast(head.weight.value.detach(), DType::kFloat32), {0});
  Tensor means = reduce_sum(cast(hidden.detach(), DType::kFloat32) * row, {hidden.rank() - 1});
  if (head.bias)
    means = means + broadcast_to(mean(cast(head.bias->value.detach(), DType::kFloat32), {0}), means.shape());
  return head.multiplier == 1 ? means : means * head.multiplier;
}

TokenLosses::Each each_in_rows(const LogitsHead& head, const Tensor& hidden, const Tensor& targets, bool measures,
                               const ForwardContext& context) {
  const int64_t V = head.weight.value.dim(0), N = targets.size();
  const LinearCrossEntropy made = linear_cross_entropy(
      reshape(hidden, {N, hidden.dim(-1)}), head.weight.value, head.bias ? head.bias->value : Tensor(),
      reshape(targets, {N}),
      {.rows = rows_together(V), .multiplier = head.multiplier, .measures = measures, .through_losses = true},
      context.computing);
  const auto as_tokens = [&](const Tensor& x) { return reshape(x, targets.shape()); };
  TokenLosses::Each each{.losses = as_tokens(made.losses), .means = mean_logits_of(head, hidden)};
  if (measures) each.entropies = as_tokens(made.entropy.detach()), each.right = as_tokens(made.right.detach());
  return each;
}

}  // namespace

Tensor LogitsHead::operator()(const Tensor& hidden, ForwardContext& context) const {
  Tensor logits = linear(hidden, weight, bias ? bias->value : Tensor(), context);
  if (multiplier != 1) logits = logits * multiplier;
  return soft_cap > 0 ? tanh(logits * (1 / soft_cap)) * soft_cap : logits;
}

TokenLosses token_losses(const LogitsHead& head, const Tensor& hidden, const Tensor& targets, ForwardContext& context) {
  const TokenLoss usual, &how = context.token_loss ? *context.token_loss : usual;
  if (hidden.rank() < 2 || Shape(hidden.shape().begin(), hidden.shape().end() - 1) != targets.shape())
    fail("labels of {} do not fit hidden states of {}: expected one label for each token", to_string(targets.shape()),
         to_string(hidden.shape()));
  const bool many = targets.size() > kMostLogits / std::max<int64_t>(head.weight.value.dim(0), 1);
  if (how.each) {
    // Means of capped logits are no product.
    if (how.keeps_logits || !many || head.soft_cap > 0 || !is_plain(head, context.computing) ||
        context.computing.batch_invariant)
      return {.logits = head(hidden, context)};
    return {.each = each_in_rows(head, hidden, cast(targets, DType::kInt64), how.measures, context)};
  }
  if (!how.keeps_logits && is_plain(head, context.computing) && many)
    return in_rows(head, hidden, cast(targets, DType::kInt64), how, context);
  TokenLosses result{.logits = head(hidden, context)};
  const Tensor places = cast(targets, DType::kInt64), counted = counted_targets(places);
  if (how.kind == TokenLoss::Kind::kLogLikelihood) {
    result.loss = mean_cross_entropy(result.logits, targets, context);
  } else {
    const Tensor rows = cast(reshape(result.logits, {targets.size(), -1}), DType::kFloat32);
    const Tensor plain =
        cross_entropy(rows, reshape(places, {places.size()}), static_cast<int64_t>(kNoTarget), kAsGiven);
    result.loss = mean_over_targets(sum(plain * exp(-plain).detach()), counted, context);
  }
  if (how.measures) result.measures = measures_of_logits(result.logits, places, counted);
  if (!how.keeps_logits) result.logits = {};
  return result;
}

}  // namespace transom
