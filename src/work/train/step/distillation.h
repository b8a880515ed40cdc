// SPDX-License-Identifier: Apache-2.0
// Knowledge distillation (Hinton et al., "Distilling the knowledge in a neural network", 2015): a model learns the
// logits of a teacher besides the labels.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "transom/model.h"

namespace transom {

class Distillation {
 public:
  // Refuses a teacher with other classes or another vocabulary than the student, and takes one whose classes have the
  // same names in another order. `inputs_of` makes the teacher's inputs of a batch; empty: those that it takes.
  Distillation(std::shared_ptr<const Model> teacher, const Model& student, double temperature, double weight,
               std::function<NamedTensors(const NamedTensors&)> inputs_of);

  // weight T^2 KL(softmax(teacher / T) || softmax(student / T)) + (1 - weight) loss, f32 []. The divergence is the mean
  // over rows, or over the tokens whose labels count; of spans the mean of starts and ends. Of several classes at once
  // it is that of each class, yes or no, and the mean over all; of regression it is the mean squared error. `inputs`
  // and `outputs` are the student's; with `causal` a label belongs to the logits of the token before. Means divide by
  // what `context` says, as those of the student's own loss.
  Tensor loss(const Tensor& loss, const NamedTensors& inputs, const NamedTensors& outputs, bool causal,
              const ForwardContext& context) const;

 private:
  Tensor divergence_of_rows(const Tensor& student, const Tensor& teacher) const;
  Tensor divergence(const NamedTensors& inputs, const NamedTensors& outputs, const NamedTensors& taught, bool causal,
                    const ForwardContext& context) const;

  std::shared_ptr<const Model> teacher_;
  std::vector<std::string> taken_;    // inputs of the teacher
  std::vector<int64_t> class_order_;  // where the teacher has the student's classes; empty: at the same places
  double temperature_, weight_;
  std::function<NamedTensors(const NamedTensors&)> inputs_of_;
};

}  // namespace transom
