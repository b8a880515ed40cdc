// SPDX-License-Identifier: Apache-2.0
#include "models/nn/losses/losses.h"

#include "base/error.h"
#include "graph/ir/node.h"
#include "runtime/device/device.h"
#include "runtime/tensor/evaluate.h"
#include "runtime/tensor/host_values.h"

namespace transom {
namespace {

constexpr int64_t kIgnored = -100;

Tensor wide(const Tensor& x) { return cast(x, DType::kFloat32); }

Tensor count_of(const Tensor& labels, int64_t ignored) {
  return sum(wide(not_equal(labels, full(labels.shape(), static_cast<double>(ignored), labels.dtype()))));
}

// Devices do not tell of a label that is no class: the loss would be no number, and after an update no weight either.
// Labels that lie in the host's memory are looked at before; those of a traced function are not known yet.
void expect_classes(const Tensor& labels, int64_t classes) {
  if (!is_integer(labels.dtype()) || !labels.node()->computed(labels.output())) return;
  if (!is_in_host_memory(labels) && !buffer_of(labels)->host_pointer()) return;
  const std::vector<int64_t> values = labels.to_vector<int64_t>();
  for (size_t row = 0; row < values.size(); ++row)
    if (values[row] != kIgnored && (values[row] < 0 || values[row] >= classes))
      fail("labels: row {}: {} is no class: expected numbers in [0, {}), or {} for what is not counted", row,
           values[row], classes, kIgnored);
}

// The losses of the rows, 0 where the label is -100, and the labels as they are counted.
struct RowLosses {
  Tensor losses, labels;
};
RowLosses cross_entropies(const Tensor& logits, const Tensor& labels) {
  const int64_t classes = logits.dim(-1);
  const Tensor flat = cast(reshape(labels, {labels.size()}), DType::kInt64);
  if (logits.size() != labels.size() * classes)
    fail("labels of {} do not fit logits of {}: expected one label for each row of {} classes",
         to_string(labels.shape()), to_string(logits.shape()), classes);
  expect_classes(labels, classes);
  return {cross_entropy(wide(reshape(logits, {labels.size(), classes})), flat, kIgnored, kAsGiven), flat};
}

}  // namespace

Tensor mean_squared_error(const Tensor& x, const Tensor& target) {
  if (x.shape() != target.shape())
    fail("mean_squared_error: expected a target of {}, found {}", to_string(x.shape()), to_string(target.shape()));
  const Tensor error = wide(x) - wide(target);
  return mean_of_all(error * error, {});
}

Tensor mean_cross_entropy(const Tensor& logits, const Tensor& labels, const Tensor& items) {
  const RowLosses rows = cross_entropies(logits, labels);
  return sum(rows.losses) / (items.defined() ? items : count_of(rows.labels, kIgnored));
}

Tensor mean_cross_entropy(const Tensor& logits, const Tensor& labels, const ForwardContext& context) {
  if (context.num_items_in_batch.defined()) return mean_cross_entropy(logits, labels, context.num_items_in_batch);
  const RowLosses rows = cross_entropies(logits, labels);
  return mean_of(sum(rows.losses), count_of(rows.labels, kIgnored), context);
}

Tensor binary_cross_entropy(const Tensor& logits, const Tensor& labels, const Tensor& counted) {
  return binary_cross_entropy(logits, labels, counted, {});
}

Tensor binary_cross_entropy(const Tensor& logits, const Tensor& labels, const Tensor& counted,
                            const ForwardContext& context) {
  if (labels.size() != logits.size())
    fail("labels of {} do not fit logits of {}", to_string(labels.shape()), to_string(logits.shape()));
  const Tensor x = wide(logits), target = reshape(wide(labels), x.shape());
  const Tensor losses = relu(x) - x * target + log1p(exp(-abs(x)));  // log(1 + exp(x)) - x target, without overflow
  if (!counted.defined()) return mean_of_all(losses, context);
  const Tensor one = full(counted.shape(), 1, counted.dtype());
  const Tensor weights = reshape(wide(equal(counted, one)), x.shape());
  return mean_of(sum(losses * weights), sum(weights), context);
}

Tensor classification_loss(const Tensor& logits, const Tensor& labels, const std::string& problem_type,
                           const ForwardContext& context) {
  const int64_t classes = logits.dim(-1);
  std::string type = problem_type;
  if (type.empty())
    type = classes == 1                  ? "regression"
           : is_floating(labels.dtype()) ? "multi_label_classification"
                                         : "single_label_classification";
  if (type == "single_label_classification") return mean_cross_entropy(logits, labels, context);
  if (labels.size() != logits.size())
    fail("labels of {} do not fit logits of {} for {}", to_string(labels.shape()), to_string(logits.shape()), type);
  if (type == "multi_label_classification") return binary_cross_entropy(logits, labels, {}, context);
  if (type == "regression") {
    const Tensor error = wide(logits) - reshape(wide(labels), logits.shape());
    return mean_of_all(error * error, context);
  }
  fail("problem_type: expected regression, single_label_classification or multi_label_classification, found {}",
       quoted(type));
}

Tensor span_loss(const Tensor& start_logits, const Tensor& end_logits, const Tensor& starts, const Tensor& ends,
                 const ForwardContext& context) {
  const int64_t length = start_logits.dim(-1);
  const auto one = [&](const Tensor& logits, const Tensor& positions) {
    const Tensor flat = cast(reshape(positions, {positions.size()}), DType::kInt64);
    const Tensor clamped = minimum(maximum(flat, zeros(flat.shape(), DType::kInt64)),
                                   full(flat.shape(), static_cast<double>(length), DType::kInt64));
    return mean_of(sum(cross_entropy(wide(logits), clamped, length, kAsGiven)), count_of(clamped, length), context);
  };
  return (one(start_logits, starts) + one(end_logits, ends)) * 0.5;
}

}  // namespace transom
