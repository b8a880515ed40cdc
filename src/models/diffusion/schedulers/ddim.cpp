// SPDX-License-Identifier: Apache-2.0
// DDIM (Song et al., 2021): DDPM's model without its chain, so that timesteps can be left out.
#include <cmath>

#include "models/diffusion/schedulers/schedule_parts.h"

namespace transom {
namespace {

class DdimScheduler : public Scheduler {
 public:
  explicit DdimScheduler(const Config& config)
      : noise_(config, 1e-4, 0.02, "linear", {"linear", "scaled_linear", "squaredcos_cap_v2"}, ZeroSignal::kZero),
        bounds_(config, SampleBounds::Clips::kByDefault),
        spacing_(spacing_of(config, "leading")),
        steps_offset_(config.get_int("steps_offset", 0)),
        last_alpha_(config.get_bool("set_alpha_to_one", true) ? 1.0f : noise_.alphas_cumprod.front()),
        prediction_type_(one_of(config, "prediction_type", "epsilon", {"epsilon", "sample", "v_prediction"})) {}

  void set_timesteps(int64_t steps, const NoiseScheduleOptions&) override {
    steps_ = checked_steps(steps, noise_.size(), "DDIMScheduler");
    timesteps_ = spaced_timesteps(spacing_, noise_.size(), steps_, steps_offset_);
    round_all(timesteps_);
  }
  bool takes_eta() const override { return true; }
  std::string prediction_type() const override { return prediction_type_; }
  std::span<const float> alphas_cumprod() const override { return noise_.alphas_cumprod; }

  std::vector<float> step(size_t index, std::span<const float> model_output, std::span<const float> sample,
                          const DenoisingStep& request) override {
    check_sample(model_output, sample, index, timesteps_.size());
    const auto t = static_cast<int64_t>(timesteps_[index]);
    const int64_t before = t - noise_.size() / steps_;
    const float alpha = noise_.alpha(t), alpha_before = before >= 0 ? noise_.alpha(before) : last_alpha_;
    const float beta = 1 - alpha, root = std::sqrt(alpha), noise_root = std::sqrt(beta);
    std::vector<float> original(model_output.begin(), model_output.end()), epsilon = original;
    for (size_t i = 0; i < original.size(); ++i) {
      if (prediction_type_ == "epsilon") original[i] = (sample[i] - noise_root * model_output[i]) / root;
      else if (prediction_type_ == "sample") epsilon[i] = (sample[i] - root * original[i]) / noise_root;
      else {
        original[i] = root * sample[i] - noise_root * model_output[i];
        epsilon[i] = root * model_output[i] + noise_root * sample[i];
      }
    }
    bounds_.apply(original, request.rows);
    const float variance = (1 - alpha_before) / beta * (1 - alpha / alpha_before);
    const float deviation = static_cast<float>(request.eta) * std::sqrt(variance);
    std::vector<float> result =
        combined(std::sqrt(alpha_before), original, std::sqrt(1 - alpha_before - deviation * deviation), epsilon);
    if (request.eta > 0) {
      const std::vector<float> noise = normal_numbers(result.size(), request);
      for (size_t i = 0; i < result.size(); ++i) result[i] += deviation * noise[i];
    }
    return result;
  }

  std::vector<float> add_noise(std::span<const float> original, std::span<const float> noise,
                               size_t index) const override {
    const float alpha = noise_.alpha(static_cast<int64_t>(timesteps_.at(index)));
    return combined(std::sqrt(alpha), original, std::sqrt(1 - alpha), noise);
  }

 private:
  TrainedNoise noise_;
  SampleBounds bounds_;
  Spacing spacing_;
  int64_t steps_offset_, steps_ = 1;
  float last_alpha_;
  std::string prediction_type_;
};

}  // namespace

std::unique_ptr<Scheduler> make_ddim(const Config& config) { return std::make_unique<DdimScheduler>(config); }

}  // namespace transom
