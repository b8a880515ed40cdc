// SPDX-License-Identifier: Apache-2.0
// Steps of DPM-Solver-2 with Karras' noise levels, plain and ancestral (Karras et al., 2022; Crowson's k-diffusion):
// two calls of the model a step, the second at a level between, but for the last step.
#include <algorithm>
#include <cmath>

#include "models/diffusion/schedulers/schedule_parts.h"

namespace transom {
namespace {

constexpr int64_t kKdpmMostSteps = 100000;

class Kdpm2Scheduler : public Scheduler {
 public:
  Kdpm2Scheduler(const Config& config, bool ancestral)
      : config_(config),
        noise_(config, 0.00085, 0.012, "linear", {"linear", "scaled_linear", "squaredcos_cap_v2"},
               ZeroSignal::kNoField),
        form_(sigma_form_of(config)),
        spacing_(spacing_of(config, "linspace")),
        steps_offset_(config.get_int("steps_offset", 0)),
        prediction_type_(one_of(config, "prediction_type", "epsilon", {"epsilon", "v_prediction"})),
        ancestral_(ancestral) {}

  int64_t order() const override { return 2; }

  void set_timesteps(int64_t steps, const NoiseScheduleOptions&) override {
    checked_steps(steps, kKdpmMostSteps, ancestral_ ? "KDPM2AncestralDiscreteScheduler" : "KDPM2DiscreteScheduler");
    std::vector<double> timesteps = spaced_timesteps(spacing_, noise_.size(), steps, steps_offset_);
    round_to_float(timesteps);
    std::vector<double> sigmas = interpolated(timesteps, noise_.sigmas);
    if (form_ != SigmaForm::kPlain) {
      sigmas = formed_sigmas(form_, config_, sigmas.front(), sigmas.back(), steps);
      timesteps = timesteps_of_sigmas(sigmas, noise_.log_sigmas);
      if (form_ == SigmaForm::kKarras) round_all(timesteps);
    }
    levels_ = with_last(sigmas, 0);
    set_between();
    const std::vector<double> between(between_.begin(), between_.end());
    const std::vector<double> places = timesteps_of_sigmas(between, noise_.log_sigmas);
    sigmas_ = {levels_.front()};
    timesteps_ = {timesteps.front()};
    for (size_t i = 1; i < timesteps.size(); ++i) timesteps_.insert(timesteps_.end(), {places[i - 1], timesteps[i]});
    for (size_t i = 1; i < levels_.size(); ++i) sigmas_.insert(sigmas_.end(), 2, levels_[i]);
    sigmas_.push_back(levels_.back());
    sample_.clear();
  }
  float initial_deviation() const override {
    const float most = *std::max_element(levels_.begin(), levels_.end());
    return spacing_ == Spacing::kLeading ? std::sqrt(most * most + 1) : most;
  }
  void scale_input(std::span<float> sample, size_t index) const override {
    const float sigma = seen_at(index), divisor = std::sqrt(sigma * sigma + 1);
    for (float& value : sample) value /= divisor;
  }
  std::string prediction_type() const override { return prediction_type_; }
  std::span<const float> alphas_cumprod() const override { return noise_.alphas_cumprod; }

  std::vector<float> step(size_t index, std::span<const float> model_output, std::span<const float> sample,
                          const DenoisingStep& request) override {
    check_sample(model_output, sample, index, timesteps_.size());
    const size_t at = index / 2;
    const bool first = index % 2 == 0 || sample_.size() != sample.size();
    const float seen = seen_at(index), from = levels_[at];
    if (first) sample_.assign(sample.begin(), sample.end());
    const float change = (first ? between_[at] : targets_[at]) - from;
    std::vector<float> result = sample_;
    for (size_t i = 0; i < result.size(); ++i) {
      const float original = prediction_type_ == "epsilon" ? sample[i] - seen * model_output[i]
                                                           : model_output[i] * (-seen / std::sqrt(seen * seen + 1)) +
                                                                 sample[i] / (seen * seen + 1);
      result[i] += (sample[i] - original) / seen * change;
    }
    if (first) return result;
    sample_.clear();
    if (!ancestral_) return result;
    const std::vector<float> noise = normal_numbers(result.size(), request);
    for (size_t i = 0; i < result.size(); ++i) result[i] += noise[i] * added_[at];
    return result;
  }

  std::vector<float> add_noise(std::span<const float> original, std::span<const float> noise,
                               size_t index) const override {
    std::vector<float> result(original.begin(), original.end());
    for (size_t i = 0; i < result.size(); ++i) result[i] += noise[i] * sigmas_.at(index);
    return result;
  }

 private:
  // The level of each step's second call, half of the way in logarithms; the last step has none, and goes to 0.
  void set_between() {
    between_.clear();
    targets_.clear();
    added_.clear();
    for (size_t i = 0; i + 1 < levels_.size(); ++i) {
      const float from = levels_[i], to = levels_[i + 1];
      const float up = ancestral_ ? std::sqrt(to * to * (from * from - to * to) / (from * from)) : 0;
      const float target = ancestral_ ? std::sqrt(to * to - up * up) : to;
      added_.push_back(up);
      targets_.push_back(target);
      const bool last = i + 2 == levels_.size();
      between_.push_back(last ? 0 : std::exp(std::log(from) - (std::log(from) - std::log(target)) * 0.5f));
    }
  }
  float seen_at(size_t index) const { return index % 2 == 0 ? levels_.at(index / 2) : between_.at(index / 2); }

  Config config_;
  TrainedNoise noise_;
  SigmaForm form_;
  Spacing spacing_;
  int64_t steps_offset_;
  std::string prediction_type_;
  bool ancestral_;
  std::vector<float> levels_, between_, targets_, added_;  // of each step; levels_: and 0
  std::vector<float> sample_;                              // of the first call of a step
};

}  // namespace

std::unique_ptr<Scheduler> make_k_dpm_2(const Config& config) {
  return std::make_unique<Kdpm2Scheduler>(config, false);
}
std::unique_ptr<Scheduler> make_k_dpm_2_ancestral(const Config& config) {
  return std::make_unique<Kdpm2Scheduler>(config, true);
}

}  // namespace transom
