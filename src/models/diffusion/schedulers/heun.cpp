// SPDX-License-Identifier: Apache-2.0
// Heun's method, Euler's with a correction (Karras et al., 2022): two calls of the model a step, but for the last.
#include <algorithm>
#include <cmath>

#include "models/diffusion/schedulers/schedule_parts.h"

namespace transom {
namespace {

constexpr int64_t kHeunMostSteps = 100000;

class HeunScheduler : public Scheduler {
 public:
  explicit HeunScheduler(const Config& config)
      : config_(config),
        noise_(config, 0.00085, 0.012, "linear", {"linear", "scaled_linear", "squaredcos_cap_v2", "exp"},
               ZeroSignal::kNoField),
        bounds_(config, SampleBounds::Clips::kIfAsked, false),
        form_(sigma_form_of(config)),
        spacing_(spacing_of(config, "linspace")),
        steps_offset_(config.get_int("steps_offset", 0)),
        prediction_type_(one_of(config, "prediction_type", "epsilon", {"epsilon", "sample", "v_prediction"})) {}

  int64_t order() const override { return 2; }

  bool takes_timesteps() const override { return true; }

  void set_timesteps(int64_t steps, const NoiseScheduleOptions& options) override {
    expect_plain_sigmas(config_, options, form_ == SigmaForm::kPlain);
    std::vector<double> timesteps = given_timesteps(options, noise_.size());
    if (timesteps.empty())
      timesteps = spaced_timesteps(spacing_, noise_.size(),
                                   checked_steps(steps, kHeunMostSteps, "HeunDiscreteScheduler"), steps_offset_);
    round_to_float(timesteps);
    std::vector<double> sigmas = interpolated(timesteps, noise_.sigmas);
    if (form_ != SigmaForm::kPlain) {
      sigmas = formed_sigmas(form_, config_, sigmas.front(), sigmas.back(), steps);
      timesteps = timesteps_of_sigmas(sigmas, noise_.log_sigmas);
      round_to_float(timesteps);
    }
    const std::vector<float> once = with_last(sigmas, 0);
    sigmas_ = {once.front()};
    for (size_t i = 1; i + 1 < once.size(); ++i) sigmas_.insert(sigmas_.end(), 2, once[i]);
    sigmas_.push_back(once.back());
    timesteps_ = {timesteps.front()};
    for (size_t i = 1; i < timesteps.size(); ++i) timesteps_.insert(timesteps_.end(), 2, timesteps[i]);
    derivative_.clear();
  }
  float initial_deviation() const override {
    const float most = *std::max_element(sigmas_.begin(), sigmas_.end());
    return spacing_ == Spacing::kLeading ? std::sqrt(most * most + 1) : most;
  }
  void scale_input(std::span<float> sample, size_t index) const override {
    const float sigma = sigmas_.at(index), divisor = std::sqrt(sigma * sigma + 1);
    for (float& value : sample) value /= divisor;
  }
  std::string prediction_type() const override { return prediction_type_; }
  std::span<const float> alphas_cumprod() const override { return noise_.alphas_cumprod; }

  std::vector<float> step(size_t index, std::span<const float> model_output, std::span<const float> sample,
                          const DenoisingStep& request) override {
    check_sample(model_output, sample, index, timesteps_.size());
    const bool first = derivative_.empty() || index == 0;
    const float here = sigmas_[index];  // the level that the model saw
    std::vector<float> original(model_output.begin(), model_output.end());
    for (size_t i = 0; i < original.size(); ++i) {
      if (prediction_type_ == "epsilon") original[i] = sample[i] - here * model_output[i];
      else if (prediction_type_ == "v_prediction")
        original[i] = model_output[i] * (-here / std::sqrt(here * here + 1)) + sample[i] / (here * here + 1);
    }
    bounds_.apply(original, request.rows);
    for (size_t i = 0; i < original.size(); ++i) original[i] = (sample[i] - original[i]) / here;  // the derivative
    if (first) {
      change_ = sigmas_[index + 1] - here;
      derivative_ = original;
      sample_.assign(sample.begin(), sample.end());
      for (size_t i = 0; i < original.size(); ++i) original[i] = sample[i] + original[i] * change_;
    } else {
      for (size_t i = 0; i < original.size(); ++i)
        original[i] = sample_[i] + (derivative_[i] + original[i]) / 2 * change_;
      derivative_.clear();
    }
    return original;
  }

  std::vector<float> add_noise(std::span<const float> original, std::span<const float> noise,
                               size_t index) const override {
    std::vector<float> result(original.begin(), original.end());
    for (size_t i = 0; i < result.size(); ++i) result[i] += noise[i] * sigmas_.at(index);
    return result;
  }

 private:
  Config config_;
  TrainedNoise noise_;
  SampleBounds bounds_;
  SigmaForm form_;
  Spacing spacing_;
  int64_t steps_offset_;
  std::string prediction_type_;
  std::vector<float> derivative_, sample_;  // of the first call of a step
  float change_ = 0;
};

}  // namespace

std::unique_ptr<Scheduler> make_heun(const Config& config) { return std::make_unique<HeunScheduler>(config); }

}  // namespace transom
