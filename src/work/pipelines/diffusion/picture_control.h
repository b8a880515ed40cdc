// SPDX-License-Identifier: Apache-2.0
// The ControlNet of a pipeline (Zhang et al., 2023): it sees a picture beside the latents, and says what is added to
// the maps of the U-Net. B rows of a pass.
#pragma once

#include <memory>

#include "models/diffusion/pipeline_directory.h"
#include "work/pipelines/diffusion/picture_request.h"

namespace transom {

class PictureControl {
 public:
  PictureControl(const PipelineDirectory& directory, const LoadOptions& options);

  Model* model() const { return model_.get(); }
  // The picture of a request, as the network sees it in each step. `guided`: passes have an unwanted half.
  Tensor picture(const PictureRequest& request, bool guided) const;
  // Whether the request has it act in call `call` of `calls`.
  static bool acts(const PictureRequest& request, size_t call, size_t calls);
  // Adds what the U-Net is told to its inputs.
  void add_residuals(NamedTensors& inputs, const Tensor& picture, const PictureRequest& request, bool guided) const;

 private:
  bool guesses(const PictureRequest& request) const { return request.guesses || pools_; }
  Tensor scales(const PictureRequest& request) const;

  std::unique_ptr<Model> model_;
  int64_t maps_ = 0;
  bool pools_ = false;
};

}  // namespace transom
