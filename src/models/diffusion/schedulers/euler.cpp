// SPDX-License-Identifier: Apache-2.0
// Euler's method on the probability flow of a model of noise levels, and its ancestral form (Karras et al., 2022;
// Crowson's k-diffusion).
#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "models/diffusion/schedulers/schedule_parts.h"

namespace transom {
namespace {

constexpr int64_t kEulerMostSteps = 100000;

// What both share: a sample is scaled by its noise level before the model sees it.
class SigmaScheduler : public Scheduler {
 public:
  SigmaScheduler(const Config& config, const std::string& prediction_type)
      : noise_(config, 1e-4, 0.02, "linear", {"linear", "scaled_linear", "squaredcos_cap_v2"}, ZeroSignal::kNearZero),
        spacing_(spacing_of(config, "linspace")),
        steps_offset_(config.get_int("steps_offset", 0)),
        prediction_type_(prediction_type) {}

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
  std::vector<float> add_noise(std::span<const float> original, std::span<const float> noise,
                               size_t index) const override {
    std::vector<float> result(original.begin(), original.end());
    for (size_t i = 0; i < result.size(); ++i) result[i] += noise[i] * sigmas_.at(index);
    return result;
  }

 protected:
  std::vector<double> spaced(int64_t steps, const char* who) const {
    std::vector<double> timesteps =
        spaced_timesteps(spacing_, noise_.size(), checked_steps(steps, kEulerMostSteps, who), steps_offset_);
    round_to_float(timesteps);
    return timesteps;
  }
  float original_of(float output, float sample, float sigma) const {
    if (prediction_type_ == "epsilon") return sample - sigma * output;
    if (prediction_type_ == "v_prediction")
      return output * (-sigma / std::sqrt(sigma * sigma + 1)) + sample / (sigma * sigma + 1);
    return output;
  }

  TrainedNoise noise_;
  Spacing spacing_;
  int64_t steps_offset_;
  std::string prediction_type_;
};

class EulerScheduler : public SigmaScheduler {
 public:
  explicit EulerScheduler(const Config& config)
      : SigmaScheduler(config, one_of(config, "prediction_type", "epsilon",
                                      {"epsilon", "sample", "original_sample", "v_prediction"})),
        config_(config),
        form_(sigma_form_of(config)),
        is_log_linear_(one_of(config, "interpolation_type", "linear", {"linear", "log_linear"}) == "log_linear"),
        is_continuous_(one_of(config, "timestep_type", "discrete", {"discrete", "continuous"}) == "continuous") {
    last_sigma(config, 0);
  }

  bool takes_timesteps() const override { return true; }
  bool takes_sigmas() const override { return true; }

  void set_timesteps(int64_t steps, const NoiseScheduleOptions& options) override {
    const bool tells_levels = is_continuous_ && prediction_type_ == "v_prediction";
    expect_plain_sigmas(config_, options, form_ == SigmaForm::kPlain && !tells_levels);
    if (options.sigmas.empty()) set_trained_levels(steps, options);
    else set_given_levels(options.sigmas);
    if (!tells_levels) return;
    timesteps_.clear();
    for (size_t i = 0; i + 1 < sigmas_.size(); ++i) timesteps_.push_back(0.25f * std::log(sigmas_[i]));
  }

  std::vector<float> step(size_t index, std::span<const float> model_output, std::span<const float> sample,
                          const DenoisingStep&) override {
    check_sample(model_output, sample, index, std::min(timesteps_.size(), sigmas_.size() - 1));
    const float sigma = sigmas_[index], change = sigmas_[index + 1] - sigma;
    std::vector<float> result(sample.begin(), sample.end());
    for (size_t i = 0; i < result.size(); ++i)
      result[i] += (sample[i] - original_of(model_output[i], sample[i], sigma)) / sigma * change;
    return result;
  }

 private:
  void set_trained_levels(int64_t steps, const NoiseScheduleOptions& options) {
    timesteps_ = given_timesteps(options, noise_.size());
    if (timesteps_.empty()) timesteps_ = spaced(steps, "EulerDiscreteScheduler");
    std::vector<double> sigmas = interpolated(timesteps_, noise_.sigmas);
    if (is_log_linear_) {
      sigmas.clear();
      const auto high = static_cast<float>(noise_.log_sigmas.back()), low = static_cast<float>(noise_.log_sigmas[0]);
      for (const float level : linear_space_f32(high, low, std::ssize(timesteps_) + 1))
        sigmas.push_back(std::exp(level));
    }
    if (form_ != SigmaForm::kPlain) {
      sigmas = formed_sigmas(form_, config_, sigmas.front(), sigmas.back(), steps);
      timesteps_ = timesteps_of_sigmas(sigmas, noise_.log_sigmas);
      round_to_float(timesteps_);
    }
    sigmas_ = with_last(sigmas, last_sigma(config_, noise_.sigmas.front()));
  }

  void set_given_levels(std::vector<double> sigmas) {
    round_to_float(sigmas);
    for (size_t i = 1; i < sigmas.size(); ++i)
      if (!(sigmas[i] >= 0 && sigmas[i] < sigmas[i - 1])) sigmas.clear();
    if (sigmas.size() < 2)
      fail(ErrorKind::kUsage,
           "sigmas: EulerDiscreteScheduler takes two or more from 0, each below the one before; the last is that of "
           "the picture");
    const double last = sigmas.back();
    sigmas.pop_back();
    timesteps_ = timesteps_of_sigmas(sigmas, noise_.log_sigmas);
    round_to_float(timesteps_);
    sigmas_ = with_last(sigmas, last);
  }

  Config config_;
  SigmaForm form_;
  bool is_log_linear_, is_continuous_;
};

class EulerAncestralScheduler : public SigmaScheduler {
 public:
  explicit EulerAncestralScheduler(const Config& config)
      : SigmaScheduler(config, one_of(config, "prediction_type", "epsilon", {"epsilon", "v_prediction"})) {}

  void set_timesteps(int64_t steps, const NoiseScheduleOptions&) override {
    timesteps_ = spaced(steps, "EulerAncestralDiscreteScheduler");
    sigmas_ = with_last(interpolated(timesteps_, noise_.sigmas), 0);
  }

  std::vector<float> step(size_t index, std::span<const float> model_output, std::span<const float> sample,
                          const DenoisingStep& request) override {
    check_sample(model_output, sample, index, timesteps_.size());
    const float from = sigmas_[index], to = sigmas_[index + 1];
    const float up = std::sqrt(to * to * (from * from - to * to) / (from * from));
    const float change = std::sqrt(to * to - up * up) - from;
    const std::vector<float> noise = normal_numbers(sample.size(), request);
    std::vector<float> result(sample.begin(), sample.end());
    for (size_t i = 0; i < result.size(); ++i) {
      result[i] += (sample[i] - original_of(model_output[i], sample[i], from)) / from * change;
      result[i] += noise[i] * up;
    }
    return result;
  }
};

}  // namespace

std::unique_ptr<Scheduler> make_euler(const Config& config) { return std::make_unique<EulerScheduler>(config); }
std::unique_ptr<Scheduler> make_euler_ancestral(const Config& config) {
  return std::make_unique<EulerAncestralScheduler>(config);
}

}  // namespace transom
