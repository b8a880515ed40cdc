// SPDX-License-Identifier: Apache-2.0
// Stable Diffusion 1 and 2 (Rombach et al., 2022), XL (Podell et al., 2023) with its refiner, and models of latent
// consistency (Luo et al., 2023), each with a ControlNet or without: a text steers the way from noise to the latents of
// a picture. A seed gives the noise of torch's generator on the CPU, and with it diffusers' picture. B pictures, C
// channels of latents, h x w their extents, T tokens, D width of the text.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/numbers/mt19937.h"
#include "models/diffusion/latent_scale.h"
#include "models/diffusion/prompt_encoders.h"
#include "models/diffusion/schedulers/scheduler.h"
#include "work/pipelines/diffusion/picture_control.h"
#include "work/pipelines/diffusion/picture_model.h"
#include "work/pipelines/diffusion/request_files.h"

namespace transom {

class StableDiffusion : public PictureModel {
 public:
  StableDiffusion(const PipelineDirectory& directory, const LoadOptions& options);

  // The classes of model_index.json that draw by a text.
  static std::vector<std::string> class_names();

  Model* network() const override { return unet_.get(); }
  int64_t enlargement() const { return enlargement_; }  // pixels a place of the latents
  PictureDefaults defaults(bool starts, bool masked) const override;

  std::vector<Picture> pictures(const Latents& latents) const override;

 protected:
  std::unique_ptr<PictureRun> begin(const PictureRequest& request) const override;
  void use_files(const PictureRequest& request) const override;

 private:
  struct Run;

  // By a second pass, with the unwanted text.
  bool is_guided(const PictureRequest& r) const;
  void add_texts(Run& run, const PictureRequest& request) const;
  void start(Run& run, const PictureRequest& request) const;
  void set_schedule(Run& run, const PictureRequest& request) const;
  // Of pixels [3, H, W] from -1 to 1: a draw of what the encoder says, repeated for each picture.
  std::vector<float> encode(const std::vector<float>& pixels, const PictureRequest& request, Mt19937& random) const;
  void add_mask(Run& run, const PictureRequest& request, std::vector<float> pixels) const;
  void show_picture(Run& run, const PictureRequest& request, const std::vector<float>& pixels) const;
  bool sees_masks() const { return input_channels_ != scale_.channels && !instructed_; }
  PictureRun::Question question(const Run& run, const PictureRequest& request, size_t index) const;
  void check(const PictureRequest& request) const;
  void check_instructed(const PictureRequest& request) const;
  // Between the numbers of the autoencoder and those of the U-Net.
  void read_latent_scale(const PipelineDirectory& directory);

  std::unique_ptr<Model> unet_, vae_;
  std::optional<PictureControl> control_;
  Config scheduler_, other_scheduler_;  // of the directory's class, and of one in its place
  bool xl_ = false, of_consistency_ = false, instructed_ = false, scores_aesthetics_ = false,
       zeros_without_negative_ = false;
  mutable PromptEncoders encoders_;  // whose words are those of the last request
  LatentScale scale_;
  int64_t input_channels_ = 4, guidance_width_ = 0, enlargement_ = 8;
  mutable RequestFiles files_;
};

}  // namespace transom
