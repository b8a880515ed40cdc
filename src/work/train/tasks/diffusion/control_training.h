// SPDX-License-Identifier: Apache-2.0
// A ControlNet (Zhang et al., 2023) that is trained beside a U-Net, which stays as it is.
#pragma once

#include <memory>

#include "work/train/tasks/diffusion/denoising_objective.h"

namespace transom {

inline constexpr const char* kControlNetClass = "ControlNetModel";

// As diffusers' ControlNetModel.from_unet: the way down has the U-Net's weights, and what is added to it is 0 at first.
// `enlargement`: pixels a place of the latents, to which the map of the picture is brought down.
std::unique_ptr<Model> new_controlnet(const Model& unet, int64_t enlargement, const LoadOptions& options);

// What the U-Net says with what the ControlNet, which is trained, adds to its maps.
class ControlObjective : public DenoisingObjective {
 public:
  ControlObjective(std::string prediction_type, const ScriptArguments& script, std::shared_ptr<const Model> unet)
      : DenoisingObjective(std::move(prediction_type), script), unet_(std::move(unet)) {}

 protected:
  Tensor said(const LossPass& pass, const NamedTensors& given, const Tensor& noisy,
              ForwardContext& context) const override;

 private:
  std::shared_ptr<const Model> unet_;
};

}  // namespace transom
