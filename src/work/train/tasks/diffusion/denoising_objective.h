// SPDX-License-Identifier: Apache-2.0
// The loss of diffusion: a sample gets noise, and the network is to say the noise, the velocity, or the sample. Weight
// decay is that of the scripts of Diffusers, which spare no weight.
#pragma once

#include <memory>
#include <string>

#include "models/diffusion/latent_scale.h"
#include "transom/training_arguments.h"
#include "work/train/step/objective.h"
#include "work/train/tasks/diffusion/weight_average.h"

namespace transom {

// The clean samples: [B, C, H, W]; or pictures [B, 3, H, W], which the autoencoder makes them of, and the noise of its
// distribution.
constexpr const char *kCleanSample = "clean_sample", *kPixels = "pixels", *kLatentNoise = "latent_noise";

class DenoisingObjective : public Objective {
 public:
  DenoisingObjective(std::string prediction_type, const ScriptArguments& script);

  // Batches may hold pictures, which this one encodes.
  void encode_by(std::shared_ptr<const Model> autoencoder, LatentScale scale);
  // Saves the average of the weights.
  void average_by(std::shared_ptr<WeightAverage> average) { average_ = std::move(average); }

  Tensor loss(const LossPass& pass, const NamedTensors& inputs, NamedTensors* outputs) const override;
  bool spares_from_decay(const Parameter&) const override { return false; }
  void updated(const Model& model, int64_t steps) override;
  void save(const std::filesystem::path& directory) const override;
  void load(const std::filesystem::path& directory) override;
  void expect(bool sharded, bool staged) const override;

 protected:
  // From the network's own answer to the sample that it means, and the loss over that (SD 3's scripts).
  void precondition() { preconditioned_ = true; }
  // What the network says of the noisy sample; `given`: the inputs of the batch that are not of this loss.
  virtual Tensor said(const LossPass& pass, const NamedTensors& given, const Tensor& noisy,
                      ForwardContext& context) const;

 private:
  Tensor clean(const LossPass& pass, const NamedTensors& inputs) const;
  // Rectified by what the network says (DREAM: Zhou et al., 2024): the noisy sample and the target.
  void rectify(const LossPass& pass, const NamedTensors& inputs, const NamedTensors& given, Tensor& noisy,
               Tensor& target) const;

  std::string prediction_type_;
  std::optional<double> detail_;  // of DREAM
  bool preconditioned_ = false;
  std::shared_ptr<const Model> autoencoder_;
  LatentScale scale_;
  std::shared_ptr<WeightAverage> average_;
};

}  // namespace transom
