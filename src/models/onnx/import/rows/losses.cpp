// SPDX-License-Identifier: Apache-2.0
// Losses and dropout, as inference computes them.
#include "base/error.h"
#include "models/onnx/import/elementwise/element_values.h"
#include "models/onnx/import/run/operators.h"
#include "models/onnx/import/run/precision.h"

namespace transom::onnx {
namespace {

Tensor sum_of_all(const Tensor& x) { return sum(x); }

// Of log probabilities [N, C, ...] and labels [N, ...]: minus that of the label, times its weight.
Tensor likelihood_loss(const Call& call, const Tensor& scores, size_t labels_input, size_t weights_input) {
  const Tensor labels = cast(call.tensor(labels_input), DType::kInt64);
  call.require(scores.rank() >= 2 && labels.rank() == scores.rank() - 1, "labels do not fit the scores");
  const int64_t C = scores.dim(1);
  const bool ignores = call.attribute("ignore_index") != nullptr;
  const Tensor ignored =
      ignores ? equal(labels, integer(call.integer("ignore_index", 0))) : zeros(labels.shape(), DType::kBool);
  const Tensor inside = select(ignored, integer(0), labels);
  const Tensor chosen = squeeze(take_along_axis(scores, unsqueeze(inside, 1), 1), 1);
  Tensor weights = broadcast_to(constant(1, scores.dtype()), labels.shape());
  if (call.has(weights_input)) {
    call.require(call.shape(weights_input) == Shape{C}, "weights must have a number for each class");
    weights = gather(cast(call.tensor(weights_input), scores.dtype()), inside, 0);
  }
  weights = select(ignored, constant(0, scores.dtype()), weights);
  const Tensor losses = select(ignored, constant(0, scores.dtype()), mul(neg(chosen), weights));
  const std::string reduction = call.text("reduction", "mean");
  if (reduction == "none") return losses;
  if (reduction == "sum") return sum_of_all(losses);
  call.require(reduction == "mean", "reduction must be none, sum or mean");
  return div(sum_of_all(losses), sum_of_all(weights));
}

Results negative_log_likelihood(Call& call) {
  const Tensor& x = call.tensor(0);
  return {call.like(0, cast(likelihood_loss(call, wide(x), 1, 2), x.dtype()))};
}

Results softmax_cross_entropy(Call& call) {
  const Tensor& x = call.tensor(0);
  call.require(x.rank() >= 2, "expected scores [N, C, ...]");
  const Tensor scores = transpose(log_softmax(transpose(wide(x), 1, -1), call.computing()), 1, -1);
  return {call.like(0, cast(likelihood_loss(call, scores, 1, 2), x.dtype())), call.like(0, cast(scores, x.dtype()))};
}

Results dropout_operator(Call& call) {
  const Tensor& x = call.tensor(0);
  double ratio = call.number("ratio", 0.5);
  bool training = call.version() < 7 && call.integer("is_test", 0) == 0 && call.version() < 6;
  if (call.version() >= 12) {
    training = call.has(2) && call.integer_of(call.tensor(2)) != 0;
    ratio = call.has(1) ? call.number_of(call.tensor(1)) : 0.5;
  }
  if (training && ratio != 0) call.not_supported("training: its results are of chance");
  return {call.value(0), {ElementType::kBool, broadcast_to(constant(1, DType::kBool), x.shape())}};
}

}  // namespace

const RegisterOperators kLosses = {{"NegativeLogLikelihoodLoss", negative_log_likelihood, 12},
                                   {"SoftmaxCrossEntropyLoss", softmax_cross_entropy, 12},
                                   {"Dropout", dropout_operator}};

}  // namespace transom::onnx
