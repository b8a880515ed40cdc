// SPDX-License-Identifier: Apache-2.0
#include "work/train/step/objective.h"

#include "base/error.h"
#include "work/train/step/distillation.h"
#include "work/train/step/train_step.h"

namespace transom {

ForwardContext further_pass(const LossPass& pass, int64_t number) {
  // A micro-batch has 2^20 draws; a pass has far fewer than 2^14.
  constexpr int64_t kDrawsOfPass = int64_t{1} << 14;
  ForwardContext context = pass.context;
  context.dropouts += number * kDrawsOfPass;
  return context;
}

bool Objective::spares_from_decay(const Parameter& parameter) const { return is_spared_from_decay(parameter); }

void Objective::learn_from(Distillation) {
  fail(ErrorKind::kUsage, "--teacher_model: the loss of this task has no term for a teacher; leave it out");
}

}  // namespace transom
