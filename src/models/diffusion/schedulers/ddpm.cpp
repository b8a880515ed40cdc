// SPDX-License-Identifier: Apache-2.0
// DDPM (Ho et al., 2020): the ancestral chain that training defines. Refuses fixed_large_log, which takes the root of a
// logarithm below 0.
#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "models/diffusion/schedulers/schedule_parts.h"

namespace transom {
namespace {

class DdpmScheduler : public Scheduler {
 public:
  explicit DdpmScheduler(const Config& config)
      : noise_(config, 1e-4, 0.02, "linear", {"linear", "scaled_linear", "squaredcos_cap_v2", "laplace", "sigmoid"},
               ZeroSignal::kZero),
        bounds_(config, SampleBounds::Clips::kByDefault),
        spacing_(spacing_of(config, "leading")),
        steps_offset_(config.get_int("steps_offset", 0)),
        prediction_type_(one_of(config, "prediction_type", "epsilon", {"epsilon", "sample", "v_prediction"})),
        variance_type_(one_of(config, "variance_type", "fixed_small",
                              {"fixed_small", "fixed_small_log", "fixed_large", "learned", "learned_range"})) {}

  void set_timesteps(int64_t steps, const NoiseScheduleOptions& options) override {
    timesteps_ = given_timesteps(options, noise_.size());
    if (!timesteps_.empty()) return;
    timesteps_ =
        spaced_timesteps(spacing_, noise_.size(), checked_steps(steps, noise_.size(), "DDPMScheduler"), steps_offset_);
    round_all(timesteps_);
  }
  bool takes_timesteps() const override { return true; }
  std::string prediction_type() const override { return prediction_type_; }
  std::span<const float> alphas_cumprod() const override { return noise_.alphas_cumprod; }

  std::vector<float> step(size_t index, std::span<const float> model_output, std::span<const float> sample,
                          const DenoisingStep& request) override {
    std::vector<float> output, variances;
    split_variance(model_output, sample.size(), request.rows, output, variances);
    check_sample(output, sample, index, timesteps_.size());
    const auto t = static_cast<int64_t>(timesteps_[index]);
    const float alpha = noise_.alpha(t);
    const float alpha_before =
        index + 1 < timesteps_.size() ? noise_.alpha(static_cast<int64_t>(timesteps_[index + 1])) : 1.0f;
    const float beta = 1 - alpha, beta_before = 1 - alpha_before;
    const float step_alpha = alpha / alpha_before, step_beta = 1 - step_alpha;
    std::vector<float> original = output;
    if (prediction_type_ == "epsilon") {
      const float root = std::sqrt(alpha), noise = std::sqrt(beta);
      for (size_t i = 0; i < original.size(); ++i) original[i] = (sample[i] - noise * output[i]) / root;
    } else if (prediction_type_ == "v_prediction") {
      original = combined(std::sqrt(alpha), sample, -std::sqrt(beta), output);
    }
    bounds_.apply(original, request.rows);
    std::vector<float> before = combined(std::sqrt(alpha_before) * step_beta / beta, original,
                                         std::sqrt(step_alpha) * beta_before / beta, sample);
    if (t > 0) add_variance(before, variances, beta, beta_before, step_beta, request);
    return before;
  }

  std::vector<float> add_noise(std::span<const float> original, std::span<const float> noise,
                               size_t index) const override {
    const float alpha = noise_.alpha(static_cast<int64_t>(timesteps_.at(index)));
    return combined(std::sqrt(alpha), original, std::sqrt(1 - alpha), noise);
  }

 private:
  bool learns() const { return variance_type_ == "learned" || variance_type_ == "learned_range"; }

  // A model that learned its variance gives it as further channels.
  void split_variance(std::span<const float> given, size_t count, int64_t rows, std::vector<float>& output,
                      std::vector<float>& variances) const {
    if (!learns()) {
      output.assign(given.begin(), given.end());
      return;
    }
    if (given.size() != 2 * count)
      fail("DDPMScheduler: variance_type {}: expected a model with twice the channels of the sample", variance_type_);
    const size_t width = count / static_cast<size_t>(rows);
    for (size_t row = 0; row < static_cast<size_t>(rows); ++row) {
      const auto begin = given.begin() + static_cast<ptrdiff_t>(2 * row * width);
      output.insert(output.end(), begin, begin + static_cast<ptrdiff_t>(width));
      variances.insert(variances.end(), begin + static_cast<ptrdiff_t>(width),
                       begin + static_cast<ptrdiff_t>(2 * width));
    }
  }

  void add_variance(std::vector<float>& sample, const std::vector<float>& predicted, float beta, float beta_before,
                    float step_beta, const DenoisingStep& request) const {
    const std::vector<float> noise = normal_numbers(sample.size(), request);
    const float variance = std::max(beta_before / beta * step_beta, 1e-20f);
    if (variance_type_ == "learned") {
      for (size_t i = 0; i < sample.size(); ++i) sample[i] += std::sqrt(predicted[i]) * noise[i];
      return;
    }
    if (variance_type_ == "learned_range") {
      const float least = std::log(variance), most = std::log(step_beta);
      for (size_t i = 0; i < sample.size(); ++i) {
        const float share = (predicted[i] + 1) / 2;
        sample[i] += std::exp(0.5f * (share * most + (1 - share) * least)) * noise[i];
      }
      return;
    }
    const float deviation = variance_type_ == "fixed_small_log" ? std::exp(0.5f * std::log(variance))
                            : variance_type_ == "fixed_large"   ? std::sqrt(step_beta)
                                                                : std::sqrt(variance);
    for (size_t i = 0; i < sample.size(); ++i) sample[i] += deviation * noise[i];
  }

  TrainedNoise noise_;
  SampleBounds bounds_;
  Spacing spacing_;
  int64_t steps_offset_;
  std::string prediction_type_, variance_type_;
};

}  // namespace

std::unique_ptr<Scheduler> make_ddpm(const Config& config) { return std::make_unique<DdpmScheduler>(config); }

}  // namespace transom
