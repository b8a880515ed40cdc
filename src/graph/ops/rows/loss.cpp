// SPDX-License-Identifier: Apache-2.0
// Cross entropy from logits, row by row.
#include <limits>

#include "graph/ops/rules.h"

namespace transom {
namespace {

using Tensors = std::vector<Tensor>;

void expect_rows(const Inference& in) {
  expect_floating(in, 0);
  check(in, in.rank(0) == 2, "expected logits [N, C], found {}", in.shape(0));
  check(in, in.inputs[1] == Type{DType::kInt64, {in.shape(0)[0]}}, "expected labels i64[{}], found {}", in.shape(0)[0],
        in.inputs[1]);
}

// [N, C]: true at the label of each row; rows to ignore have none.
Tensor at_label(const Tensor& labels, int64_t classes, int64_t ignore_index) {
  const Tensor counted = not_equal(labels, full(labels.shape(), static_cast<double>(ignore_index), DType::kInt64));
  const Tensor place = select(counted, labels, full(labels.shape(), -1, DType::kInt64));
  return equal(unsqueeze(place, 1), iota({labels.dim(0), classes}, 1));
}

// `rows` [N], but NaN where the label is neither a class nor ignored: there is no loss to give, and 0 would hide it.
Tensor where_known(const Tensor& rows, const Tensor& labels, int64_t classes, int64_t ignore_index) {
  const auto constant = [&](int64_t value) { return full(labels.shape(), static_cast<double>(value), DType::kInt64); };
  const Tensor is_class = logical_and(greater_equal(labels, constant(0)), less(labels, constant(classes)));
  const Tensor known = logical_or(is_class, equal(labels, constant(ignore_index)));
  return select(known, rows, full(rows.shape(), std::numeric_limits<double>::quiet_NaN(), rows.dtype()));
}

std::vector<Sample> loss_samples(bool with_cotangent) {
  std::vector<Sample> samples;
  for (const DType dtype : {DType::kFloat32, DType::kBFloat16})
    for (const Shape& shape : {Shape{5, 7}, Shape{1, 33}, Shape{4, 1}}) {
      Sample sample{{{dtype, shape}, {DType::kInt64, {shape[0]}}}, {{"ignore_index", int64_t{0}}}, -3, 3, shape[1]};
      if (with_cotangent) sample.inputs.push_back({dtype, {shape[0]}});
      samples.push_back(std::move(sample));
    }
  return samples;
}

const Operation kCrossEntropyGradient = {
    .name = "cross_entropy_gradient",
    .kind = OperationKind::kComposite,
    .documentation = "(logits, labels, dy [N]): the gradient of cross_entropy for the logits.",
    .category = Category::kRows,
    .infer = [](const Inference& in) -> std::vector<Type> {
      expect_inputs(in, 3);
      expect_rows(in);
      return {in.inputs[0]};
    },
    .decompose = [](std::span<const Tensor> in, const Attributes& attributes) -> Tensors {
      const int64_t ignore_index = attributes.get_int("ignore_index");
      const Tensor x = widened(in[0]), &labels = in[1], dy = widened(in[2]);
      const Tensor counted = not_equal(labels, full(labels.shape(), static_cast<double>(ignore_index), DType::kInt64));
      const Tensor weight =
          unsqueeze(where_known(select(counted, dy, zeros(dy.shape(), dy.dtype())), labels, x.dim(1), ignore_index), 1);
      const Tensor target = cast(at_label(labels, x.dim(1), ignore_index), x.dtype());
      return {cast((softmax(x, kAsGiven) - target) * weight, in[0].dtype())};
    },
    .samples = [] { return loss_samples(true); }};

const Operation kCrossEntropy = {
    .name = "cross_entropy",
    .kind = OperationKind::kComposite,
    .documentation =
        "(logits [N, C], labels i64 [N]): -log softmax(logits)[label] of each row; 0 where the label is "
        "`ignore_index`, NaN where it is no class.",
    .category = Category::kRows,
    .autocast = AutocastClass::kFull,
    .infer = [](const Inference& in) -> std::vector<Type> {
      expect_inputs(in, 2);
      expect_rows(in);
      return {{in.dtype(0), {in.shape(0)[0]}}};
    },
    .decompose = [](std::span<const Tensor> in, const Attributes& attributes) -> Tensors {
      const Tensor log_probabilities = log_softmax(widened(in[0]), kAsGiven);
      const Tensor chosen = at_label(in[1], in[0].dim(1), attributes.get_int("ignore_index"));
      const Tensor picked =
          select(chosen, log_probabilities, zeros(log_probabilities.shape(), log_probabilities.dtype()));
      const Tensor losses =
          where_known(-reduce_sum(picked, {1}), in[1], in[0].dim(1), attributes.get_int("ignore_index"));
      return {cast(losses, in[0].dtype())};
    },
    .gradient = [](const GradientRequest& request) -> Tensors {
      return {make_tensor(kCrossEntropyGradient, {request.inputs[0], request.inputs[1], request.cotangents[0]},
                          request.attributes),
              Tensor()};
    },
    .samples = [] { return loss_samples(false); }};

}  // namespace

const RegisterOperations kRegisteredLoss{&kCrossEntropy, &kCrossEntropyGradient};

Tensor cross_entropy(const Tensor& logits, const Tensor& labels, int64_t ignore_index, const Computing& computing) {
  return make_tensor(kCrossEntropy, autocast_inputs(kCrossEntropy, {logits, labels}, computing),
                     {{"ignore_index", ignore_index}});
}

}  // namespace transom
