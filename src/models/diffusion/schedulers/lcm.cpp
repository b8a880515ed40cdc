// SPDX-License-Identifier: Apache-2.0
// The sampler of latent consistency models (Luo et al., 2023): the model says the whole way, noise is added again.
#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "models/diffusion/schedulers/schedule_parts.h"

namespace transom {
namespace {

constexpr float kDataDeviation = 0.5f;

class LcmScheduler : public Scheduler {
 public:
  explicit LcmScheduler(const Config& config)
      : noise_(config, 0.00085, 0.012, "scaled_linear", {"linear", "scaled_linear", "squaredcos_cap_v2"},
               ZeroSignal::kZero),
        bounds_(config, SampleBounds::Clips::kIfAsked),
        original_steps_(config.get_int("original_inference_steps", 50)),
        scaling_(static_cast<float>(config.get_float("timestep_scaling", 10))),
        prediction_type_(one_of(config, "prediction_type", "epsilon", {"epsilon", "sample", "v_prediction"})) {}

  void set_timesteps(int64_t steps, const NoiseScheduleOptions& options) override {
    const int64_t original = options.original_inference_steps.value_or(original_steps_);
    if (original < 1 || original > noise_.size())
      fail(ErrorKind::kUsage, "original_inference_steps: expected 1 to {}, found {}", noise_.size(), original);
    if (!options.timesteps.empty()) return begin_within(given_timesteps(options, noise_.size()), options.strength);
    const auto used = static_cast<int64_t>(static_cast<double>(original) * options.strength);
    steps_ = checked_steps(steps, used, "LCMScheduler, by original_inference_steps and strength,");
    const int64_t stride = noise_.size() / original;
    const double skip = static_cast<double>(used) / static_cast<double>(steps);
    timesteps_.clear();
    for (int64_t i = 0; i < steps; ++i) {
      const auto place = static_cast<int64_t>(std::floor(static_cast<double>(i) * skip));
      timesteps_.push_back(static_cast<double>((used - place) * stride - 1));
    }
  }
  bool takes_timesteps() const override { return true; }
  std::string prediction_type() const override { return prediction_type_; }
  std::span<const float> alphas_cumprod() const override { return noise_.alphas_cumprod; }

  std::vector<float> step(size_t index, std::span<const float> model_output, std::span<const float> sample,
                          const DenoisingStep& request) override {
    check_sample(model_output, sample, index, timesteps_.size());
    const double t = timesteps_[index];
    const float alpha = noise_.alpha(static_cast<int64_t>(t)), root = std::sqrt(alpha), rest = std::sqrt(1 - alpha);
    const float scaled = static_cast<float>(t) * scaling_;
    const float squares = scaled * scaled + kDataDeviation * kDataDeviation;
    const float skip = kDataDeviation * kDataDeviation / squares, out = scaled / std::sqrt(squares);
    std::vector<float> original(model_output.begin(), model_output.end());
    for (size_t i = 0; i < original.size(); ++i) {
      if (prediction_type_ == "epsilon") original[i] = (sample[i] - rest * model_output[i]) / root;
      else if (prediction_type_ == "v_prediction") original[i] = root * sample[i] - rest * model_output[i];
    }
    bounds_.apply(original, request.rows);
    std::vector<float> denoised = combined(out, original, skip, sample);
    if (static_cast<int64_t>(index) == steps_ - 1) return denoised;
    const size_t next = std::min(index + 1, timesteps_.size() - 1);
    const float alpha_next = noise_.alpha(static_cast<int64_t>(timesteps_[next]));
    return combined(std::sqrt(alpha_next), denoised, std::sqrt(1 - alpha_next),
                    normal_numbers(denoised.size(), request));
  }

  std::vector<float> add_noise(std::span<const float> original, std::span<const float> noise,
                               size_t index) const override {
    const float alpha = noise_.alpha(static_cast<int64_t>(timesteps_.at(index)));
    return combined(std::sqrt(alpha), original, std::sqrt(1 - alpha), noise);
  }

 private:
  // Those of a run's own, without the first ones where little of a picture may change.
  void begin_within(std::vector<double> timesteps, double strength) {
    steps_ = std::ssize(timesteps);
    const auto used = static_cast<int64_t>(static_cast<double>(steps_) * strength);
    if (used < 1) fail(ErrorKind::kUsage, "strength: {} of {} timesteps is none", strength, steps_);
    timesteps_.assign(timesteps.end() - std::min(used, steps_), timesteps.end());
  }

  TrainedNoise noise_;
  SampleBounds bounds_;
  int64_t original_steps_, steps_ = 1;
  float scaling_;
  std::string prediction_type_;
};

}  // namespace

std::unique_ptr<Scheduler> make_lcm(const Config& config) { return std::make_unique<LcmScheduler>(config); }

}  // namespace transom
