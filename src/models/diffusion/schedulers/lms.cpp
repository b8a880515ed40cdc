// SPDX-License-Identifier: Apache-2.0
// Linear multi-step steps of order 4 on noise levels that are unevenly spaced (Crowson's k-diffusion).
#include <algorithm>
#include <cmath>

#include "models/diffusion/schedulers/schedule_parts.h"

namespace transom {
namespace {

constexpr int64_t kLmsMostSteps = 100000;
constexpr size_t kLmsOrder = 4;

class LmsScheduler : public Scheduler {
 public:
  explicit LmsScheduler(const Config& config)
      : config_(config),
        noise_(config, 1e-4, 0.02, "linear", {"linear", "scaled_linear", "squaredcos_cap_v2"}, ZeroSignal::kNoField),
        form_(sigma_form_of(config)),
        spacing_(spacing_of(config, "linspace")),
        steps_offset_(config.get_int("steps_offset", 0)),
        prediction_type_(one_of(config, "prediction_type", "epsilon", {"epsilon", "sample", "v_prediction"})) {}

  void set_timesteps(int64_t steps, const NoiseScheduleOptions&) override {
    timesteps_ = spaced_timesteps(spacing_, noise_.size(), checked_steps(steps, kLmsMostSteps, "LMSDiscreteScheduler"),
                                  steps_offset_);
    round_to_float(timesteps_);
    std::vector<double> sigmas = interpolated(timesteps_, noise_.sigmas);
    if (form_ != SigmaForm::kPlain) {
      sigmas = formed_sigmas(form_, config_, sigmas.front(), sigmas.back(), steps);
      timesteps_ = timesteps_of_sigmas(sigmas, noise_.log_sigmas);
      round_to_float(timesteps_);
    }
    sigmas_ = with_last(sigmas, 0);
    derivatives_.clear();
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
                          const DenoisingStep&) override {
    check_sample(model_output, sample, index, timesteps_.size());
    const float sigma = sigmas_[index];
    std::vector<float> derivative(model_output.begin(), model_output.end());
    for (size_t i = 0; i < derivative.size(); ++i) {
      float original = model_output[i];
      if (prediction_type_ == "epsilon") original = sample[i] - sigma * model_output[i];
      else if (prediction_type_ == "v_prediction")
        original = model_output[i] * (-sigma / std::sqrt(sigma * sigma + 1)) + sample[i] / (sigma * sigma + 1);
      derivative[i] = (sample[i] - original) / sigma;
    }
    derivatives_.insert(derivatives_.begin(), std::move(derivative));
    if (derivatives_.size() > kLmsOrder) derivatives_.pop_back();
    // A run that begins within the schedule has fewer derivatives than its place has weights, as in diffusers.
    const size_t order = std::min(index + 1, kLmsOrder), known = std::min(order, derivatives_.size());
    std::vector<float> sum(sample.size(), 0), result(sample.begin(), sample.end());
    for (size_t back = 0; back < known; ++back) {
      const auto weight = static_cast<float>(weight_of(order, index, back));
      for (size_t i = 0; i < sum.size(); ++i) sum[i] += weight * derivatives_[back][i];
    }
    for (size_t i = 0; i < sum.size(); ++i) result[i] += sum[i];
    return result;
  }

  std::vector<float> add_noise(std::span<const float> original, std::span<const float> noise,
                               size_t index) const override {
    std::vector<float> result(original.begin(), original.end());
    for (size_t i = 0; i < result.size(); ++i) result[i] += noise[i] * sigmas_.at(index);
    return result;
  }

 private:
  // The integral of a Lagrange polynomial from this level to the next: of degree 3 at most, so that Simpson's rule is
  // exact.
  double weight_of(size_t order, size_t at, size_t back) const {
    const auto polynomial = [&](double tau) {
      double product = 1;
      for (size_t k = 0; k < order; ++k)
        if (k != back) product *= (tau - sigmas_[at - k]) / (static_cast<double>(sigmas_[at - back]) - sigmas_[at - k]);
      return product;
    };
    const double from = sigmas_[at], to = sigmas_[at + 1];
    return (to - from) / 6 * (polynomial(from) + 4 * polynomial((from + to) / 2) + polynomial(to));
  }

  Config config_;
  TrainedNoise noise_;
  SigmaForm form_;
  Spacing spacing_;
  int64_t steps_offset_;
  std::string prediction_type_;
  std::vector<std::vector<float>> derivatives_;  // the newest first
};

}  // namespace

std::unique_ptr<Scheduler> make_lms(const Config& config) { return std::make_unique<LmsScheduler>(config); }

}  // namespace transom
