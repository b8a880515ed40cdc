// SPDX-License-Identifier: Apache-2.0
// What draws pictures by a text: a pipeline of diffusers, of whatever class.
#pragma once

#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "models/diffusion/pipeline_directory.h"
#include "work/pipelines/diffusion/picture_request.h"
#include "work/pipelines/diffusion/picture_run.h"

namespace transom {

class PictureModel {
 public:
  virtual ~PictureModel() = default;
  virtual Model* network() const = 0;  // that predicts
  // `starts`: the run begins with a picture, `masked`: with a mask over it.
  virtual PictureDefaults defaults(bool starts, bool masked) const = 0;
  virtual std::vector<Picture> pictures(const Latents& latents) const = 0;

  // One call at a time: files of a request change the weights that all runs share.
  std::vector<Picture> draw(const PictureRequest& request) const;
  // Of requests with the same files: they share steps. Where the network keeps rows apart, each has the bits that it
  // has alone.
  std::vector<std::vector<Picture>> draw_together(std::span<const PictureRequest> requests) const;
  // The latents at the end of a run, with the files that are in use.
  Latents latents(const PictureRequest& request) const;

 protected:
  virtual std::unique_ptr<PictureRun> begin(const PictureRequest& request) const = 0;
  virtual void use_files(const PictureRequest& request) const = 0;

 private:
  mutable std::mutex drawing_;
};

// Of the class that model_index.json names; refuses unknown ones.
std::unique_ptr<PictureModel> load_picture_model(const PipelineDirectory& directory, const LoadOptions& options);

// ---- what the classes share

// The autoencoder. Those of float16 decode in float32, since they overflow.
std::unique_ptr<Model> load_picture_decoder(const PipelineDirectory& directory, LoadOptions options);
// Pictures of numbers [B, C, h, w] as the autoencoder reads them, one by one, which takes the least memory.
std::vector<Picture> decoded_pictures(const Model& decoder, const std::vector<float>& values, const Shape& shape);
Tensor repeated_rows(const Tensor& x, int64_t count);

}  // namespace transom
