// SPDX-License-Identifier: Apache-2.0
// What tasks share that train the network of latent diffusion by pictures and texts, whole or by LoRA (the U-Net of
// Stable Diffusion 1, 2 or XL, the transformer of Stable Diffusion 3 or FLUX), or a ControlNet beside it: the parts of
// its pipeline, and what is saved.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "models/diffusion/flow_pipelines.h"
#include "models/diffusion/pipeline_directory.h"
#include "models/diffusion/prompt_encoders.h"
#include "work/train/tasks/diffusion/denoising_objective.h"
#include "work/train/tasks/diffusion/noisy_pictures.h"
#include "work/train/tasks/diffusion/pipeline_output.h"
#include "work/train/tasks/task_data.h"

namespace transom {

class LatentTraining {
 public:
  enum class Trains { kNetwork, kControlNet, kWord };  // kWord: vectors of the text encoder
  // Loads the pipeline; what is trained becomes setup.model.
  LatentTraining(const TrainArguments& arguments, Resampling resampling, TaskSetup& setup,
                 Trains trains = Trains::kNetwork);

  // Without rows, for training or for evaluations.
  std::shared_ptr<NoisyPictures> pictures(bool trains) const;
  size_t place_of(const std::string& text) const { return states_->place_of(text); }
  // Encodes pictures, and makes the data of them.
  void add_data(std::shared_ptr<NoisyPictures> pictures, bool trains);
  const FlowPipeline* flow() const { return flow_; }  // null: a U-Net
  const PipelineDirectory& directory() const { return directory_; }
  const std::string& prediction_type() const { return noise_->prediction_type(); }
  std::shared_ptr<const Model> frozen_network() const { return network_; }  // where it is not trained
  // The loss, and what is saved.
  void finish();
  void finish(std::shared_ptr<DenoisingObjective> objective, std::function<void(const std::string&)> save);

 private:
  void refuse_what_is_not_trained() const;
  void read_texts();
  void choose_noise();
  // The folder and the class of the network.
  std::string part() const { return flow_ ? "transformer" : "unet"; }
  std::string network_class() const;
  void load_networks();
  void load_autoencoder();
  void choose_extents(Resampling resampling);
  const Model& network() const { return network_ ? *network_ : *setup_.model; }
  PipelineOutput output(std::shared_ptr<const WeightAverage> average) const;

  const TrainArguments& arguments_;
  TaskSetup& setup_;
  Trains trains_;
  PipelineDirectory directory_;
  const FlowPipeline* flow_;  // null: of a U-Net
  bool xl_;
  std::shared_ptr<const Model> network_;  // the U-Net where it is not trained
  std::shared_ptr<TextStates> states_;
  std::shared_ptr<const Model> autoencoder_;
  std::optional<fs::path> autoencoder_folder_;  // where it is not the pipeline's
  LatentScale scale_;
  std::shared_ptr<const DrawnNoise> noise_;
  PictureParts parts_;
  int64_t enlargement_ = 8;
};

// Defaults in which the scripts differ.
struct LatentDefaults {
  double learning_rate;
  int64_t rows;  // of a batch
  double epochs;
  double weight_decay = 1e-2;
  std::optional<double> lora_alpha = {};  // the rank
};
// These, and those that they share. Scripts of flows have some of their own.
void latent_training_defaults(TrainArguments& arguments, const LatentDefaults& own);
// Updates over which the learning rate of all of them grows, where its course has a warm-up.
inline constexpr double kWarmupOfScripts = 500;

}  // namespace transom
