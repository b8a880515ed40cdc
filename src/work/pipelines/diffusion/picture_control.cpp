// SPDX-License-Identifier: Apache-2.0
#include "work/pipelines/diffusion/picture_control.h"

#include <cmath>

#include "base/error.h"
#include "files/config/config.h"
#include "models/diffusion/blocks/text_unet.h"
#include "transom/ops.h"
#include "work/pipelines/diffusion/picture_model.h"
#include "work/pipelines/diffusion/picture_pixels.h"

namespace transom {
namespace {

constexpr const char* kControlClass = "ControlNetModel";

Tensor wanted_half(const Tensor& x) { return slice(x, 0, x.dim(0) / 2, x.dim(0)); }

}  // namespace

PictureControl::PictureControl(const PipelineDirectory& directory, const LoadOptions& options)
    : model_(directory.load(directory.part_of(kControlClass), kControlClass, options)) {
  const Config& config = model_->config();
  maps_ = TextUNetConfig(config, false).skips() + 1;
  pools_ = config.get_bool("global_pool_conditions", false);
  if (config.get_int("conditioning_channels", 3) != 3)
    fail(ErrorKind::kUnsupported, "{}: {}: expected pictures of 3 channels, found {}", directory.where(), kControlClass,
         config.get_int("conditioning_channels", 3));
}

Tensor PictureControl::picture(const PictureRequest& r, bool guided) const {
  const Tensor one = Tensor::from(unit_pixels(*r.control, r.height, r.width), {1, 3, r.height, r.width});
  const int64_t B = guided && !guesses(r) ? 2 * r.pictures : r.pictures;
  return cast(repeated_rows(one, B), model_->dtype());
}

bool PictureControl::acts(const PictureRequest& r, size_t call, size_t calls) {
  const auto at = static_cast<double>(call), all = static_cast<double>(calls);
  return !(at / all < r.control_start || (at + 1) / all > r.control_end);
}

// Where it guesses, the nearer a map is to the top, the less it counts.
Tensor PictureControl::scales(const PictureRequest& r) const {
  const auto scale = static_cast<float>(r.control_scale);
  if (!guesses(r) || pools_) return Tensor::from(std::vector<float>{scale}, {1});
  std::vector<float> all;
  for (int64_t i = 0; i < maps_; ++i) {
    const double exponent = static_cast<double>(i) / static_cast<double>(maps_ - 1) - 1;
    all.push_back(static_cast<float>(std::pow(10.0, exponent)) * scale);
  }
  return Tensor::from(all, {maps_});
}

void PictureControl::add_residuals(NamedTensors& inputs, const Tensor& picture, const PictureRequest& r,
                                   bool guided) const {
  const bool half = guided && guesses(r);
  NamedTensors seen{
      {"controlnet_cond", picture}, {"conditioning_scale", scales(r)}, {"timestep", inputs.at("timestep")}};
  for (const char* name : {"sample", "encoder_hidden_states", "text_embeds", "time_ids"})
    if (const Tensor tensor = inputs.find(name); tensor.defined()) seen.set(name, half ? wanted_half(tensor) : tensor);
  const NamedTensors outputs = model_->forward(seen);
  const auto with_unwanted = [&](const Tensor& map) { return half ? concatenate({map * 0.0, map}, 0) : map; };
  for (int64_t i = 0; i + 1 < maps_; ++i)
    inputs.set(down_residual(i), with_unwanted(outputs.at(fmt::format("down_block_res_samples.{}", i))));
  inputs.set(kMidResidual, with_unwanted(outputs.at("mid_block_res_sample")));
}

}  // namespace transom
