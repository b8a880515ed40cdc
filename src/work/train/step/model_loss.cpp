// SPDX-License-Identifier: Apache-2.0
#include "work/train/step/model_loss.h"

#include "base/error.h"
#include "models/next_token.h"
#include "models/nn/losses/losses.h"
#include "models/records.h"
#include "transom/batch.h"
#include "transom/gradients.h"
#include "transom/ops.h"

namespace transom {
namespace {

// Trainer's LabelSmoother: a part of the loss is the mean over all classes.
Tensor smoothed_loss(const Tensor& logits, const Tensor& labels, double smoothing, const ForwardContext& context) {
  const int64_t classes = logits.dim(-1);
  const Tensor rows = cast(reshape(logits, {-1, classes}), DType::kFloat32), flat = reshape(labels, {-1});
  const Tensor counted = cast(not_equal(flat, full(flat.shape(), -100, DType::kInt64)), DType::kFloat32);
  const Tensor uniform = -(mean(log_softmax(rows, kAsGiven), {-1}) * counted);
  const Tensor total =
      sum(cross_entropy(rows, flat, kIgnoredLabel, kAsGiven)) * (1 - smoothing) + sum(uniform) * smoothing;
  const Tensor& items = context.num_items_in_batch;
  return items.defined() ? total / items : mean_of(total, sum(counted), context);
}

}  // namespace

std::optional<TokenLoss> ModelLoss::token_loss_of(bool causal, bool training, bool reads_outputs) const {
  if (!causal) return std::nullopt;
  TokenLoss how = token_loss_;
  const bool reads_logits = smoothing_ > 0 || (distillation_ && training);
  how.keeps_logits = reads_logits || (reads_outputs && how.keeps_logits);
  const bool usual = how.keeps_logits && how.kind == TokenLoss::Kind::kLogLikelihood && !how.measures;
  return usual ? std::nullopt : std::optional(how);
}

Tensor ModelLoss::loss(const LossPass& pass, const NamedTensors& inputs, NamedTensors* outputs) const {
  ForwardContext& context = pass.context;
  context.return_loss = true;
  const bool causal = predicts_next_token(pass.model);
  const std::optional<TokenLoss> how = token_loss_of(causal, context.training, outputs != nullptr);
  context.token_loss = how ? &*how : nullptr;
  const NamedTensors result = pass.model.forward(inputs, context);
  context.token_loss = nullptr;
  Tensor loss = result.find("loss");
  if (!loss.defined())
    fail("the model gave no loss: the batch has no labels; it has: {}", [&] {
      std::string names;
      for (const auto& [name, tensor] : inputs.items()) names += (names.empty() ? "" : ", ") + name;
      return names;
    }());
  const Tensor labels = inputs.find("labels"), logits = result.find("logits");
  if (how && how->kind != TokenLoss::Kind::kLogLikelihood && !result.find("token_measures").defined())
    fail(ErrorKind::kUnsupported, "{} has no other loss over tokens than the negative log-likelihood",
         pass.model.architecture());
  if (smoothing_ > 0 && labels.defined() && logits.defined() && is_integer(labels.dtype()))
    loss = causal ? smoothed_loss(slice(logits, 1, 0, logits.dim(1) - 1), slice(labels, 1, 1, labels.dim(1)),
                                  smoothing_, context)
                  : smoothed_loss(logits, labels, smoothing_, context);
  if (distillation_ && context.training) loss = distillation_->loss(loss, inputs, result, causal, context);
  if (outputs) *outputs = result;
  return loss;
}

// What Trainer divides a loss by that it does not leave to the labels which the loss itself counts. The device counts,
// since who reads labels waits for all that is computed before.
Tensor ModelLoss::count_items(const Model& model, const NamedTensors& inputs) const {
  const Architecture* known = find_architecture(model);
  if (!counts_labels_ || !known || known->head.divisor != LossDivisor::kAllLabels) return {};
  const Tensor labels = inputs.find("labels");
  if (!labels.defined() || !is_integer(labels.dtype())) return {};
  const NoGradient only_numbers;
  const Tensor ids = cast(labels, DType::kInt64);
  return sum(cast(not_equal(ids, full(ids.shape(), kIgnoredLabel, DType::kInt64)), DType::kFloat32));
}

bool ModelLoss::has_loss(const NamedTensors& inputs) const {
  const auto has = [&](std::string_view name) { return inputs.find(name).defined(); };
  // Pictures and their captions are compared with each other.
  const bool pairs = has("pixel_values") && has("input_ids");
  return pairs || has("labels") || has("start_positions");
}

}  // namespace transom
