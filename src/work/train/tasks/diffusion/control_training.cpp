// SPDX-License-Identifier: Apache-2.0
#include "work/train/tasks/diffusion/control_training.h"

#include <algorithm>

#include "base/error.h"
#include "base/json/json.h"
#include "files/config/config.h"
#include "models/diffusion/blocks/text_unet.h"
#include "transom/ops.h"
#include "work/train/tasks/diffusion/noisy_pictures.h"

namespace transom {
namespace {

// What a ControlNet does not have of a U-Net.
constexpr const char* kOfUNetAlone[] = {"out_channels",        "up_block_types", "sample_size",
                                        "center_input_sample", "_name_or_path",  "architectures"};
constexpr int64_t kPictureWidths[] = {16, 32, 96, 256};

bool begins_at_zero(const std::string& name) {
  return name.starts_with("controlnet_down_blocks.") || name.starts_with("controlnet_mid_block.") ||
         name.starts_with("controlnet_cond_embedding.conv_out.");
}

Json controlnet_fields(const Model& unet, int64_t enlargement) {
  Json widths = Json::array();
  int64_t halved = 1;
  for (const int64_t width : kPictureWidths) {
    if (!widths.empty()) halved *= 2;
    widths.push_back(width);
    if (halved == enlargement) break;
  }
  if (halved != enlargement)
    fail(ErrorKind::kUnsupported,
         "a new ControlNet brings pictures down by 1, 2, 4 or 8, and the autoencoder by {}: give "
         "--controlnet_model_name_or_path",
         enlargement);
  Json fields = json_of(unet.config());
  if (fields.value("center_input_sample", false))
    fail(ErrorKind::kUnsupported, "center_input_sample: a ControlNet has no such field");
  for (const char* name : kOfUNetAlone) fields.erase(name);
  fields["_class_name"] = kControlNetClass;
  fields["conditioning_embedding_out_channels"] = widths;
  fields["controlnet_conditioning_channel_order"] = "rgb";
  fields["conditioning_channels"] = 3;
  return fields;
}

}  // namespace

std::unique_ptr<Model> new_controlnet(const Model& unet, int64_t enlargement, const LoadOptions& options) {
  std::unique_ptr<Model> made = Model::from_config(dump_json(controlnet_fields(unet, enlargement)), options);
  for (const auto& parameter : made->parameters()) {
    const auto same = std::find_if(unet.parameters().begin(), unet.parameters().end(),
                                   [&](const auto& other) { return other->name == parameter->name; });
    if (begins_at_zero(parameter->name)) parameter->value = full(parameter->value.shape(), 0, parameter->value.dtype());
    else if (same != unet.parameters().end())
      parameter->value = Tensor::from_bytes((*same)->value.to_bytes(), parameter->value.type());
    parameter->value.set_requires_grad();
  }
  return made;
}

Tensor ControlObjective::said(const LossPass& pass, const NamedTensors& given, const Tensor& noisy,
                              ForwardContext& context) const {
  NamedTensors seen, inputs;
  for (const auto& [name, tensor] : given.items()) {
    seen.set(name, tensor);
    if (name != kControlPicture) inputs.set(name, tensor);
  }
  seen.set("sample", noisy);
  inputs.set("sample", noisy);
  const NamedTensors added = pass.model.forward(seen, context);
  for (int64_t map = 0;; ++map) {
    const Tensor each = added.find(fmt::format("down_block_res_samples.{}", map));
    if (!each.defined()) break;
    inputs.set(down_residual(map), each);
  }
  inputs.set(kMidResidual, added.at("mid_block_res_sample"));
  return cast(unet_->forward(inputs, {.computing = context.computing}).at("sample"), DType::kFloat32);
}

}  // namespace transom
