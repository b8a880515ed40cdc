// SPDX-License-Identifier: Apache-2.0
// The loss of flows: what a transformer of FLUX or Stable Diffusion 3 says of a sample between noise and picture.
#pragma once

#include "models/diffusion/flow_pipelines.h"
#include "work/train/tasks/diffusion/denoising_objective.h"

namespace transom {

class FlowObjective : public DenoisingObjective {
 public:
  // `preconditions`: the loss is over the sample that the network means, and not over the flow.
  FlowObjective(const ScriptArguments& script, const FlowPipeline& pipeline, bool preconditions)
      : DenoisingObjective("flow", script), pipeline_(pipeline) {
    if (preconditions) precondition();
  }

 protected:
  Tensor said(const LossPass& pass, const NamedTensors& given, const Tensor& noisy,
              ForwardContext& context) const override;

 private:
  const FlowPipeline& pipeline_;
};

}  // namespace transom
