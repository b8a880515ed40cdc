// SPDX-License-Identifier: Apache-2.0
#include "work/train/step/distillation.h"

#include <algorithm>

#include "base/error.h"
#include "files/config/config.h"
#include "inputs/data/text/padding.h"
#include "models/family.h"
#include "models/loading/input_names.h"
#include "models/nn/losses/loss_divisors.h"
#include "models/records.h"
#include "transom/ops.h"
#include "work/train/step/text_places.h"

namespace transom {
namespace {

Tensor wide(const Tensor& x) { return cast(x, DType::kFloat32); }

bool classifies(const Model& model) {
  const Architecture* known = find_architecture(model);
  return known && has_named_classes(known->head);
}

bool predicts_tokens(const Model& model) {
  const Architecture* known = find_architecture(model);
  return known && *known->head.labels == HeadLabels::kTokens;
}

// LABEL_0 and its like, which say no more than their place.
bool are_generic(const std::vector<std::string>& names) {
  for (size_t i = 0; i < names.size(); ++i)
    if (names[i] != "LABEL_" + std::to_string(i)) return false;
  return true;
}

// The place of each of the student's classes among the teacher's; empty where they are the same.
std::vector<int64_t> order_of_classes(const Model& teacher, const Model& student) {
  if (!classifies(student)) return {};
  const std::vector<std::string> taught = teacher.labels(), learnt = student.labels();
  const auto count = [](const Model& model, const std::vector<std::string>& names) {
    return names.empty() ? number_of_labels(model.config()) : static_cast<int64_t>(names.size());
  };
  if (count(teacher, taught) != count(student, learnt))
    fail(ErrorKind::kUsage, "the teacher has {} classes, the model that is trained has {}: expected the same",
         count(teacher, taught), count(student, learnt));
  if (taught == learnt || are_generic(taught) || are_generic(learnt)) return {};
  std::vector<int64_t> order;
  for (const std::string& name : learnt) {
    const auto place = std::find(taught.begin(), taught.end(), name);
    if (place == taught.end())
      fail(ErrorKind::kUsage, "the teacher has no class {} of the model that is trained; it has: {}", quoted(name),
           fmt::join(taught, ", "));
    order.push_back(place - taught.begin());
  }
  return order;
}

void check_vocabulary(const Model& teacher, const Model& student) {
  const int64_t taught = teacher.config().get_int("vocab_size", 0), learnt = student.config().get_int("vocab_size", 0);
  if (taught > 0 && learnt > 0 && (taught < learnt || (predicts_tokens(student) && taught != learnt)))
    fail(ErrorKind::kUsage,
         "the teacher has a vocabulary of {} tokens, the model that is trained one of {}: expected the same", taught,
         learnt);
}

Tensor counted_tokens(const Tensor& labels) {
  return wide(not_equal(labels, full(labels.shape(), static_cast<double>(kIgnoredLabel), labels.dtype())));
}

}  // namespace

Distillation::Distillation(std::shared_ptr<const Model> teacher, const Model& student, double temperature,
                           double weight, std::function<NamedTensors(const NamedTensors&)> inputs_of)
    : teacher_(std::move(teacher)),
      taken_(input_names_of(*teacher_)),
      class_order_(order_of_classes(*teacher_, student)),
      temperature_(temperature),
      weight_(weight),
      inputs_of_(std::move(inputs_of)) {
  check_vocabulary(*teacher_, student);
}

// KL of each row: logits [..., C] -> [...].
Tensor Distillation::divergence_of_rows(const Tensor& student, const Tensor& teacher) const {
  const Tensor learnt = log_softmax(wide(student) * (1 / temperature_), kAsGiven);
  const Tensor taught = log_softmax(wide(teacher) * (1 / temperature_), kAsGiven);
  return reduce_sum(exp(taught) * (taught - learnt), {teacher.rank() - 1}) * (temperature_ * temperature_);
}

Tensor Distillation::divergence(const NamedTensors& inputs, const NamedTensors& outputs, const NamedTensors& taught,
                                bool causal, const ForwardContext& context) const {
  const auto pair = [&](const char* name) {
    const Tensor student = outputs.find(name), teacher = taught.find(name);
    if (!student.defined()) return std::pair<Tensor, Tensor>();
    if (!teacher.defined())
      fail(ErrorKind::kUsage, "the teacher, {}, gives no {}, which the model that is trained learns from it",
           teacher_->architecture(), name);
    if (student.shape() != teacher.shape())
      fail(ErrorKind::kUsage, "the teacher gives {} of {}, the model that is trained {}: expected the same shape", name,
           to_string(teacher.shape()), to_string(student.shape()));
    return std::pair(student, teacher);
  };
  if (const auto [starts, taught_starts] = pair("start_logits"); starts.defined()) {
    const auto [ends, taught_ends] = pair("end_logits");
    return (mean_of_all(divergence_of_rows(starts, taught_starts), context) +
            mean_of_all(divergence_of_rows(ends, taught_ends), context)) *
           0.5;
  }
  auto [student, teacher] = pair("logits");
  Tensor labels = inputs.find("labels");
  if (!student.defined() || !labels.defined())
    fail(ErrorKind::kUsage, "a teacher teaches logits of rows with labels; the model that is trained has none");
  if (!class_order_.empty())
    teacher =
        gather(teacher, Tensor::from(class_order_, {static_cast<int64_t>(class_order_.size())}), teacher.rank() - 1);
  if (is_floating(labels.dtype())) {
    if (labels.size() != student.size())
      fail(ErrorKind::kUsage, "a teacher cannot teach a task with labels of {} and logits of {}",
           to_string(labels.shape()), to_string(student.shape()));
    if (student.dim(-1) == 1) {
      const Tensor error = wide(student) - wide(teacher);
      return mean_of_all(error * error, context);
    }
    // The class and its absence are two classes, with logits x and 0.
    const auto with_absence = [](const Tensor& x) {
      const Tensor each = unsqueeze(wide(x), -1);
      return concatenate({each, full(each.shape(), 0, DType::kFloat32)}, x.rank());
    };
    return mean_of_all(divergence_of_rows(with_absence(student), with_absence(teacher)), context);
  }
  if (Shape rows(student.shape().begin(), student.shape().end() - 1); rows != labels.shape())
    fail(ErrorKind::kUsage, "a teacher cannot teach a task with labels of {} and logits of {}",
         to_string(labels.shape()), to_string(student.shape()));
  if (causal) {
    const int64_t length = labels.dim(1);
    student = slice(student, 1, 0, length - 1);
    teacher = slice(teacher, 1, 0, length - 1);
    labels = slice(labels, 1, 1, length);
  }
  const Tensor counted = counted_tokens(labels);
  const Tensor total = sum(divergence_of_rows(student, teacher) * counted);
  const Tensor& items = context.num_items_in_batch;
  return items.defined() ? total / items : mean_of(total, sum(counted), context);
}

Tensor Distillation::loss(const Tensor& loss, const NamedTensors& inputs, const NamedTensors& outputs, bool causal,
                          const ForwardContext& context) const {
  NamedTensors given;
  const NamedTensors offered = inputs_of_ ? inputs_of_(inputs) : inputs;
  // Decoders of encoder-decoder models make their inputs of the labels.
  const bool needs_labels = std::count(taken_.begin(), taken_.end(), "decoder_input_ids") > 0;
  for (const auto& [name, tensor] : offered.items())
    if (std::count(taken_.begin(), taken_.end(), name) > 0 && name != "start_positions" && name != "end_positions" &&
        (name != "labels" || needs_labels))
      given.set(name, tensor);
  if (teacher_->takes_texts_in_rows() && given.find("input_ids").same_as(inputs.find("input_ids")))
    copy_places(inputs, "", given);
  const NamedTensors taught = [&] {
    const NoGradient fixed;
    return teacher_->forward(given, {.computing = {.dtype = context.computing.dtype, .tf32 = context.computing.tf32}});
  }();
  return cast(loss, DType::kFloat32) * (1 - weight_) + divergence(inputs, outputs, taught, causal, context) * weight_;
}

}  // namespace transom
