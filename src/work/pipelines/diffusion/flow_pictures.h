// SPDX-License-Identifier: Apache-2.0
// FLUX.1 (Black Forest Labs, 2024) and Stable Diffusion 3 and 3.5 (Esser et al., 2024): transformers over patches that
// lead from noise to the latents of a picture along a straight flow. A seed gives diffusers' picture.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "models/diffusion/flow_pipelines.h"
#include "models/diffusion/prompt_encoders.h"
#include "models/diffusion/schedulers/scheduler.h"
#include "work/pipelines/diffusion/picture_model.h"
#include "work/pipelines/diffusion/request_files.h"

namespace transom {

class FlowPictures : public PictureModel {
 public:
  FlowPictures(const PipelineDirectory& directory, const LoadOptions& options);

  static std::vector<std::string> class_names();

  Model* network() const override { return transformer_.get(); }
  PictureDefaults defaults(bool starts, bool masked) const override;
  std::vector<Picture> pictures(const Latents& latents) const override;

 protected:
  std::unique_ptr<PictureRun> begin(const PictureRequest& request) const override;
  void use_files(const PictureRequest& request) const override;

 private:
  struct Run;
  void check(const PictureRequest& request) const;
  std::unique_ptr<Scheduler> schedule(const PictureRequest& request) const;
  void add_texts(Run& run, const PictureRequest& request) const;
  std::vector<PictureRun::Question> questions(const Run& run, const PictureRequest& request, double timestep) const;
  PictureRun::Question question(const Run& run, const Tensor& x, const PromptEncoders::Prompt& prompt,
                                const PictureRequest& request, double timestep) const;
  // How much the wanted text counts over the unwanted one; up to 1 there is no pass with that.
  double guidance_of(const PictureRequest& r) const { return is_flux_ ? r.true_guidance.value_or(1) : r.guidance; }
  int64_t unit() const { return enlargement_ * patch_; }  // pixels of a patch

  const FlowPipeline& pipeline_;
  bool is_flux_;
  Config scheduler_;
  mutable PromptEncoders encoders_;  // whose words are those of the last request
  std::unique_ptr<Model> transformer_, vae_;
  bool knows_guidance_ = false;
  int64_t channels_ = 16, patch_ = 2, enlargement_ = 8, text_width_ = 4096;
  double scaling_ = 1, shift_ = 0;
  mutable RequestFiles files_;
};

}  // namespace transom
