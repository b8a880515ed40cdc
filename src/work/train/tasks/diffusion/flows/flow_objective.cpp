// SPDX-License-Identifier: Apache-2.0
#include "work/train/tasks/diffusion/flows/flow_objective.h"

#include "transom/ops.h"

namespace transom {

Tensor FlowObjective::said(const LossPass& pass, const NamedTensors& given, const Tensor& noisy,
                           ForwardContext& context) const {
  NamedTensors seen = given;
  if (!pipeline_.packs) {
    seen.set("hidden_states", noisy);
    return cast(pass.model.forward(seen, context).at("sample"), DType::kFloat32);
  }
  const Shape map = noisy.shape();
  seen.set("hidden_states", packed_patches(noisy));
  seen.set("img_ids", patch_places(map[2] / 2, map[3] / 2));
  seen.set("txt_ids", token_places(given.at("encoder_hidden_states").dim(1)));
  return unpacked_patches(cast(pass.model.forward(seen, context).at("sample"), DType::kFloat32), map);
}

}  // namespace transom
