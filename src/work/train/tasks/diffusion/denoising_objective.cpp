// SPDX-License-Identifier: Apache-2.0
#include "work/train/tasks/diffusion/denoising_objective.h"

#include <algorithm>

#include "base/error.h"
#include "models/nn/losses/loss_divisors.h"
#include "transom/gradients.h"
#include "transom/ops.h"
#include "work/train/tasks/diffusion/drawn_noise.h"

namespace transom {
namespace {

Tensor in_float(const Tensor& x) { return cast(x, DType::kFloat32); }

bool is_of_loss(const std::string& name) {
  constexpr const char* kOwn[] = {kCleanSample, kPixels, kLatentNoise, kNoise, kInputNoise, kKept, kAdded, kRowWeight};
  return std::find(std::begin(kOwn), std::end(kOwn), name) != std::end(kOwn);
}

}  // namespace

DenoisingObjective::DenoisingObjective(std::string prediction_type, const ScriptArguments& script)
    : prediction_type_(std::move(prediction_type)) {
  if (!script.dream_training) return;
  if (prediction_type_ != "epsilon")
    fail(ErrorKind::kUnsupported, "--dream_training: expected a network that says the noise (epsilon), found {}",
         prediction_type_);
  detail_ = script.dream_detail_preservation;
}

void DenoisingObjective::encode_by(std::shared_ptr<const Model> autoencoder, LatentScale scale) {
  autoencoder_ = std::move(autoencoder);
  scale_ = std::move(scale);
}

Tensor DenoisingObjective::clean(const LossPass& pass, const NamedTensors& inputs) const {
  if (const Tensor sample = inputs.find(kCleanSample); sample.defined()) return sample;
  const NoGradient fixed;
  const NamedTensors moments =
      autoencoder_->forward({{"sample", inputs.at(kPixels)}}, {.computing = pass.context.computing});
  const Tensor mean = in_float(moments.at("latent_mean")), spread = in_float(moments.at("latent_log_variance"));
  return scale_.for_network(mean + exp(spread * 0.5) * inputs.at(kLatentNoise));
}

Tensor DenoisingObjective::said(const LossPass& pass, const NamedTensors& given, const Tensor& noisy,
                                ForwardContext& context) const {
  NamedTensors seen = given;
  seen.set("sample", noisy);
  return in_float(pass.model.forward(seen, context).at("sample"));
}

void DenoisingObjective::rectify(const LossPass& pass, const NamedTensors& inputs, const NamedTensors& given,
                                 Tensor& noisy, Tensor& target) const {
  const NoGradient fixed;
  ForwardContext context = further_pass(pass, 1);
  const Tensor& added = inputs.at(kAdded);
  const Tensor missed = (inputs.at(kNoise) - said(pass, given, noisy, context)) * exp(log(added) * *detail_);
  noisy = noisy + added * missed;
  target = target + missed;
}

Tensor DenoisingObjective::loss(const LossPass& pass, const NamedTensors& inputs, NamedTensors*) const {
  NamedTensors given;
  for (const auto& [name, tensor] : inputs.items())
    if (!is_of_loss(name)) given.set(name, tensor);
  const Tensor sample = clean(pass, inputs);
  const Tensor &noise = inputs.at(kNoise), &kept = inputs.at(kKept), &added = inputs.at(kAdded);
  const Tensor other = inputs.find(kInputNoise);
  Tensor noisy = kept * sample + added * (other.defined() ? other : noise);
  Tensor target = prediction_type_ == "sample" || preconditioned_ ? sample
                  : prediction_type_ == "v_prediction"            ? kept * noise - added * sample
                  : prediction_type_ == "flow"                    ? noise - sample
                                                                  : noise;
  if (detail_) rectify(pass, inputs, given, noisy, target);
  Tensor answer = said(pass, given, noisy, pass.context);
  if (preconditioned_) answer = noisy - added * answer;
  if (answer.shape() != target.shape())
    fail("the network gives {}, and is to give {}", to_string(answer.shape()), to_string(target.shape()));
  const Tensor distance = answer - target, weights = inputs.find(kRowWeight);
  const Tensor squares = distance * distance;
  return mean_of_all(weights.defined() ? squares * weights : squares, pass.context);
}

void DenoisingObjective::updated(const Model& model, int64_t steps) {
  if (average_) average_->update(model, steps);
}

void DenoisingObjective::save(const std::filesystem::path& directory) const {
  if (average_) average_->save(directory);
}

void DenoisingObjective::load(const std::filesystem::path& directory) {
  if (average_) average_->load(directory);
}

void DenoisingObjective::expect(bool sharded, bool /*staged*/) const {
  if (average_ && sharded)
    fail(ErrorKind::kUsage,
         "--use_ema: weights that are spread over processes (--zero_stage, --fsdp, --tp_size ...) are not averaged; "
         "leave it out");
}

}  // namespace transom
