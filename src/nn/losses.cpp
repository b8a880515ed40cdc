// SPDX-License-Identifier: Apache-2.0
#include "nn/losses.h"

#include "base/error.h"

namespace transom {
namespace {

constexpr int64_t kIgnored = -100;

Tensor mean_of_all(const Tensor& x) { return sum(x) * (1.0 / static_cast<double>(x.size())); }

Tensor mean_where(const Tensor& losses, const Tensor& labels, int64_t ignored) {
  const Tensor counted = not_equal(labels, full(labels.shape(), static_cast<double>(ignored), labels.dtype()));
  return sum(losses) / sum(cast(counted, losses.dtype()));
}

Tensor wide(const Tensor& x) { return cast(x, DType::kFloat32); }

}  // namespace

Tensor mean_squared_error(const Tensor& x, const Tensor& target) {
  if (x.shape() != target.shape())
    fail("mean_squared_error: expected a target of {}, found {}", to_string(x.shape()), to_string(target.shape()));
  const Tensor error = wide(x) - wide(target);
  return mean_of_all(error * error);
}

Tensor mean_cross_entropy(const Tensor& logits, const Tensor& labels, const Tensor& items) {
  const int64_t classes = logits.dim(-1);
  const Tensor flat = cast(reshape(labels, {labels.size()}), DType::kInt64);
  if (logits.size() != labels.size() * classes)
    fail("labels of {} do not fit logits of {}: expected one label for each row of {} classes",
         to_string(labels.shape()), to_string(logits.shape()), classes);
  const Tensor losses = cross_entropy(wide(reshape(logits, {labels.size(), classes})), flat, kIgnored);
  return items.defined() ? sum(losses) / items : mean_where(losses, flat, kIgnored);
}

Tensor binary_cross_entropy(const Tensor& logits, const Tensor& labels, const Tensor& counted) {
  if (labels.size() != logits.size())
    fail("labels of {} do not fit logits of {}", to_string(labels.shape()), to_string(logits.shape()));
  const Tensor x = wide(logits), target = reshape(wide(labels), x.shape());
  const Tensor losses = relu(x) - x * target + log1p(exp(-abs(x)));  // log(1 + exp(x)) - x target, without overflow
  if (!counted.defined()) return mean_of_all(losses);
  const Tensor one = full(counted.shape(), 1, counted.dtype());
  const Tensor weights = reshape(wide(equal(counted, one)), x.shape());
  return sum(losses * weights) / sum(weights);
}

Tensor classification_loss(const Tensor& logits, const Tensor& labels, const std::string& problem_type,
                           const Tensor& items) {
  const int64_t classes = logits.dim(-1);
  std::string type = problem_type;
  if (type.empty())
    type = classes == 1                  ? "regression"
           : is_floating(labels.dtype()) ? "multi_label_classification"
                                         : "single_label_classification";
  if (type == "single_label_classification") return mean_cross_entropy(logits, labels, items);
  if (labels.size() != logits.size())
    fail("labels of {} do not fit logits of {} for {}", to_string(labels.shape()), to_string(logits.shape()), type);
  if (type == "multi_label_classification") return binary_cross_entropy(logits, labels);
  if (type == "regression") {
    const Tensor error = wide(logits) - reshape(wide(labels), logits.shape());
    return mean_of_all(error * error);
  }
  fail("problem_type: expected regression, single_label_classification or multi_label_classification, found {}",
       quoted(type));
}

Tensor span_loss(const Tensor& start_logits, const Tensor& end_logits, const Tensor& starts, const Tensor& ends) {
  const int64_t length = start_logits.dim(-1);
  const auto one = [&](const Tensor& logits, const Tensor& positions) {
    const Tensor flat = cast(reshape(positions, {positions.size()}), DType::kInt64);
    const Tensor clamped = minimum(maximum(flat, zeros(flat.shape(), DType::kInt64)),
                                   full(flat.shape(), static_cast<double>(length), DType::kInt64));
    return mean_where(cross_entropy(wide(logits), clamped, length), clamped, length);
  };
  return (one(start_logits, starts) + one(end_logits, ends)) * 0.5;
}

}  // namespace transom
