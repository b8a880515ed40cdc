// SPDX-License-Identifier: Apache-2.0
// Euler's method with the preconditioning of EDM (Karras et al., 2022), whose models are told a quarter of the
// logarithm of the noise level.
#include <cmath>

#include "base/error.h"
#include "models/diffusion/schedulers/schedule_parts.h"

namespace transom {
namespace {

constexpr int64_t kEdmMostSteps = 100000;

class EdmEulerScheduler : public Scheduler {
 public:
  explicit EdmEulerScheduler(const Config& config)
      : config_(config),
        least_(config.get_float("sigma_min", 0.002)),
        most_(config.get_float("sigma_max", 80)),
        rho_(config.get_float("rho", 7)),
        data_(static_cast<float>(config.get_float("sigma_data", 0.5))),
        is_exponential_(one_of(config, "sigma_schedule", "karras", {"karras", "exponential"}) == "exponential"),
        prediction_type_(one_of(config, "prediction_type", "epsilon", {"epsilon", "v_prediction"})) {
    trained_timesteps(config);
    if (!(least_ > 0 && most_ > 0))
      fail("{}: sigma_min and sigma_max: expected numbers above 0, found {} and {}", config.where(), least_, most_);
    last_sigma(config, 0);
  }

  void set_timesteps(int64_t steps, const NoiseScheduleOptions&) override {
    checked_steps(steps, kEdmMostSteps, "EDMEulerScheduler");
    std::vector<double> sigmas;
    if (is_exponential_) {
      const std::vector<float> levels =
          linear_space_f32(static_cast<float>(std::log(least_)), static_cast<float>(std::log(most_)), steps);
      for (auto level = levels.rbegin(); level != levels.rend(); ++level) sigmas.push_back(std::exp(*level));
    } else {
      const double low = std::pow(least_, 1 / rho_), high = std::pow(most_, 1 / rho_);
      sigmas = linear_space(0, 1, steps);
      for (double& sigma : sigmas) sigma = std::pow(high + sigma * (low - high), rho_);
    }
    sigmas_ = with_last(sigmas, last_sigma(config_, sigmas.back()));
    timesteps_.clear();
    for (size_t i = 0; i + 1 < sigmas_.size(); ++i) timesteps_.push_back(0.25f * std::log(sigmas_[i]));
  }
  float initial_deviation() const override { return static_cast<float>(std::sqrt(most_ * most_ + 1)); }
  void scale_input(std::span<float> sample, size_t index) const override {
    const float sigma = sigmas_.at(index), factor = 1 / std::sqrt(sigma * sigma + data_ * data_);
    for (float& value : sample) value *= factor;
  }
  std::string prediction_type() const override { return prediction_type_; }

  std::vector<float> step(size_t index, std::span<const float> model_output, std::span<const float> sample,
                          const DenoisingStep&) override {
    check_sample(model_output, sample, index, timesteps_.size());
    const float sigma = sigmas_[index], squares = sigma * sigma + data_ * data_;
    const float skip = data_ * data_ / squares, change = sigmas_[index + 1] - sigma;
    const float out = (prediction_type_ == "epsilon" ? sigma : -sigma) * data_ / std::sqrt(squares);
    std::vector<float> result(sample.begin(), sample.end());
    for (size_t i = 0; i < result.size(); ++i)
      result[i] += (sample[i] - (skip * sample[i] + out * model_output[i])) / sigma * change;
    return result;
  }

  std::vector<float> add_noise(std::span<const float> original, std::span<const float> noise,
                               size_t index) const override {
    std::vector<float> result(original.begin(), original.end());
    for (size_t i = 0; i < result.size(); ++i) result[i] += noise[i] * sigmas_.at(index);
    return result;
  }

 private:
  Config config_;
  double least_, most_, rho_;
  float data_;
  bool is_exponential_;
  std::string prediction_type_;
};

}  // namespace

std::unique_ptr<Scheduler> make_edm_euler(const Config& config) { return std::make_unique<EdmEulerScheduler>(config); }

}  // namespace transom
