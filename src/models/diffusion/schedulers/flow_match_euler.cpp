// SPDX-License-Identifier: Apache-2.0
// Euler's method on a straight flow between noise and sample (Esser et al., 2024), as Stable Diffusion 3 and FLUX have
// it.
#include <cmath>

#include "base/error.h"
#include "models/diffusion/schedulers/schedule_parts.h"

namespace transom {
namespace {

constexpr int64_t kFlowMostSteps = 100000;

class FlowMatchEulerScheduler : public Scheduler {
 public:
  explicit FlowMatchEulerScheduler(const Config& config)
      : config_(config),
        trained_(trained_timesteps(config)),
        shift_(config.get_float("shift", 1)),
        dynamic_(config.get_bool("use_dynamic_shifting", false)),
        is_linear_(one_of(config, "time_shift_type", "exponential", {"exponential", "linear"}) == "linear"),
        inverted_(config.get_bool("invert_sigmas", false)),
        stochastic_(config.get_bool("stochastic_sampling", false)),
        form_(sigma_form_of(config)) {}

  void set_timesteps(int64_t steps, const NoiseScheduleOptions& options) override {
    checked_steps(steps, kFlowMostSteps, "FlowMatchEulerDiscreteScheduler");
    if (dynamic_ && !options.mu) fail("{}: use_dynamic_shifting needs the size of a picture", config_.where());
    const auto trained = static_cast<double>(trained_);
    std::vector<double> sigmas = options.sigmas;
    if (!sigmas.empty() && static_cast<int64_t>(sigmas.size()) != steps)
      fail(ErrorKind::kUsage, "sigmas: expected num_inference_steps numbers, {}, found {}", steps, sigmas.size());
    round_to_float(sigmas);
    if (sigmas.empty()) {
      sigmas = linear_space(bound(trained_) * trained, bound(1) * trained, steps);
      for (double& sigma : sigmas) sigma /= trained;
    }
    const double mu = options.mu ? (is_linear_ ? *options.mu : std::exp(*options.mu)) : 0;
    for (double& sigma : sigmas)
      sigma = dynamic_ ? mu / (mu + (1 / sigma - 1)) : shift_ * sigma / (1 + (shift_ - 1) * sigma);
    if (const double end = config_.get_float("shift_terminal", 0); end != 0) {
      const double factor = (1 - sigmas.back()) / (1 - end);
      for (double& sigma : sigmas) sigma = 1 - (1 - sigma) / factor;
    }
    if (form_ != SigmaForm::kPlain) sigmas = formed_sigmas(form_, config_, sigmas.front(), sigmas.back(), steps);
    sigmas_ = with_last(sigmas, 0);
    if (inverted_)
      for (float& sigma : sigmas_) sigma = 1 - sigma;
    timesteps_.clear();
    for (size_t i = 0; i + 1 < sigmas_.size(); ++i) timesteps_.push_back(sigmas_[i] * static_cast<float>(trained_));
  }
  bool takes_sigmas() const override { return true; }
  std::string prediction_type() const override { return "flow"; }

  std::vector<float> step(size_t index, std::span<const float> model_output, std::span<const float> sample,
                          const DenoisingStep& request) override {
    check_sample(model_output, sample, index, timesteps_.size());
    const float sigma = sigmas_[index], next = sigmas_[index + 1];
    std::vector<float> result(sample.begin(), sample.end());
    if (stochastic_) {
      const std::vector<float> noise = normal_numbers(sample.size(), request);
      for (size_t i = 0; i < result.size(); ++i)
        result[i] = (1 - next) * (sample[i] - sigma * model_output[i]) + next * noise[i];
    } else {
      for (size_t i = 0; i < result.size(); ++i) result[i] += (next - sigma) * model_output[i];
    }
    return result;
  }

  std::vector<float> add_noise(std::span<const float> original, std::span<const float> noise,
                               size_t index) const override {
    return combined(sigmas_.at(index), noise, 1 - sigmas_.at(index), original);
  }

 private:
  // A noise level of training, as numbers of float32.
  double bound(int64_t timestep) const {
    const float sigma = static_cast<float>(timestep) / static_cast<float>(trained_);
    if (dynamic_) return sigma;
    const auto by = static_cast<float>(shift_), less = static_cast<float>(shift_ - 1);
    return by * sigma / (1 + less * sigma);
  }

  Config config_;
  int64_t trained_;
  double shift_;
  bool dynamic_, is_linear_, inverted_, stochastic_;
  SigmaForm form_;
};

}  // namespace

std::unique_ptr<Scheduler> make_flow_match_euler(const Config& config) {
  return std::make_unique<FlowMatchEulerScheduler>(config);
}

}  // namespace transom
