// SPDX-License-Identifier: Apache-2.0
// DPM-Solver and DPM-Solver++ (Lu et al., 2022) of several steps, deterministic and with noise (SDE).
#include <algorithm>
#include <cmath>
#include <limits>

#include "base/error.h"
#include "models/diffusion/schedulers/schedule_parts.h"

namespace transom {
namespace {

constexpr int64_t kFewSteps = 15;  // below, the last steps are of a lower order

class DpmSolverScheduler : public Scheduler {
 public:
  explicit DpmSolverScheduler(const Config& config)
      : config_(config),
        noise_(config, 1e-4, 0.02, "linear", {"linear", "scaled_linear", "squaredcos_cap_v2"}, ZeroSignal::kNearZero),
        bounds_(config, SampleBounds::Clips::kNever),
        form_(sigma_form_of(config)),
        spacing_(spacing_of(config, "linspace")),
        steps_offset_(config.get_int("steps_offset", 0)),
        order_(config.get_int("solver_order", 2)),
        prediction_type_(
            one_of(config, "prediction_type", "epsilon", {"epsilon", "sample", "v_prediction", "flow_prediction"})),
        lower_order_final_(config.get_bool("lower_order_final", true)),
        euler_at_final_(config.get_bool("euler_at_final", false)),
        uses_flow_(config.get_bool("use_flow_sigmas", false)),
        learned_variance_(config.get_string("variance_type", "").starts_with("learned")) {
    if (order_ < 1 || order_ > 3) fail("{}: solver_order: expected 1, 2 or 3, found {}", config.where(), order_);
    const std::string type = one_of(config, "algorithm_type", "dpmsolver++",
                                    {"dpmsolver", "dpmsolver++", "sde-dpmsolver", "sde-dpmsolver++", "deis"});
    data_ = type.ends_with("++") || type == "deis";
    stochastic_ = type.starts_with("sde");
    heun_ = one_of(config, "solver_type", "midpoint", {"midpoint", "heun", "logrho", "bh1", "bh2"}) == "heun";
    ends_at_zero_ = one_of(config, "final_sigmas_type", "zero", {"zero", "sigma_min"}) == "zero";
    if (!data_ && ends_at_zero_)
      fail("{}: final_sigmas_type: algorithm_type {} takes sigma_min, found zero", config.where(), type);
    if (stochastic_ && !data_ && order_ == 3)
      fail(ErrorKind::kUnsupported, "{}: solver_order: algorithm_type {} has none of 3", config.where(), type);
    if (!data_ && prediction_type_ == "flow_prediction")
      fail("{}: prediction_type: flow_prediction takes algorithm_type dpmsolver++, found {}", config.where(), type);
    // Those of DDPM, whose settings another class may have been given, say nothing here.
    if (config.has("variance_type"))
      one_of(config, "variance_type", "",
             {"learned", "learned_range", "fixed_small", "fixed_small_log", "fixed_large", "fixed_large_log"});
    // Another kind of shift has no effect where nothing is shifted.
    if (config.get_bool("use_dynamic_shifting", false))
      one_of(config, "time_shift_type", "exponential", {"exponential"});
  }

  void set_timesteps(int64_t steps, const NoiseScheduleOptions& options) override {
    expect_plain_sigmas(config_, options,
                        form_ == SigmaForm::kPlain && !uses_flow_ && !config_.get_bool("use_lu_lambdas", false));
    timesteps_ = given_timesteps(options, noise_.size());
    if (timesteps_.empty()) {
      checked_steps(steps, noise_.size(), "DPMSolverMultistepScheduler");
      timesteps_ = solver_timesteps(spacing_, noise_.size(), last_timestep(), steps, steps_offset_);
    }
    const std::vector<double>& all = noise_.sigmas;
    std::vector<double> sigmas;
    if (form_ != SigmaForm::kPlain) {
      sigmas = formed_sigmas(form_, config_, all.back(), all.front(), steps);
      timesteps_ = timesteps_of_sigmas(sigmas, noise_.log_sigmas);
      if (form_ == SigmaForm::kKarras) round_places();
    } else if (config_.get_bool("use_lu_lambdas", false)) {
      sigmas = linear_space(0, 1, steps);
      const double most = noise_.log_sigmas.back(), least = noise_.log_sigmas.front();
      for (double& sigma : sigmas) sigma = std::exp(most + sigma * (least - most));
      timesteps_ = timesteps_of_sigmas(sigmas, noise_.log_sigmas);
      round_places();
    } else if (uses_flow_) {
      sigmas = flow_sigmas(steps, options);
      timesteps_ = sigmas;
      for (double& t : timesteps_) t *= static_cast<double>(noise_.size());
    } else sigmas = interpolated(timesteps_, all);
    truncate_all(timesteps_);
    sigmas_ = with_last(sigmas, ends_at_zero_ ? 0 : all.front());
    outputs_.clear();
  }
  bool takes_timesteps() const override { return true; }
  std::string prediction_type() const override { return prediction_type_; }
  std::span<const float> alphas_cumprod() const override { return noise_.alphas_cumprod; }

  std::vector<float> step(size_t index, std::span<const float> given, std::span<const float> sample,
                          const DenoisingStep& request) override {
    std::vector<float> output = predicted(given, sample.size(), request);
    check_sample(output, sample, index, std::min(timesteps_.size(), sigmas_.size() - 1));
    convert(output, sample, sigmas_[index], request.rows);
    const auto count = static_cast<int64_t>(timesteps_.size());
    const auto at = static_cast<int64_t>(index);
    const bool few = lower_order_final_ && count < kFewSteps;
    const bool last = at == count - 1 && (euler_at_final_ || few || ends_at_zero_);
    const bool last_but_one = at == count - 2 && few;
    const auto known = static_cast<int64_t>(outputs_.size());  // of earlier calls
    outputs_.push_back(std::move(output));
    if (static_cast<int64_t>(outputs_.size()) > order_) outputs_.erase(outputs_.begin());
    const std::vector<float> noise = stochastic_ ? normal_numbers(sample.size(), request) : std::vector<float>();
    const int64_t order = order_ == 1 || known < 1 || last ? 1 : order_ == 2 || known < 2 || last_but_one ? 2 : 3;
    return update(order, index, sample, noise);
  }

  std::vector<float> add_noise(std::span<const float> original, std::span<const float> noise,
                               size_t index) const override {
    const Level level = level_of(sigmas_.at(index));
    return combined(level.alpha, original, level.sigma, noise);
  }

 private:
  struct Level {
    float alpha, sigma;
    float lambda() const { return std::log(alpha) - std::log(sigma); }
  };
  Level level_of(float sigma) const {
    if (uses_flow_) return {1 - sigma, sigma};
    const float alpha = 1 / std::sqrt(sigma * sigma + 1);
    return {alpha, sigma * alpha};
  }

  // Timesteps whose signal is weaker than lambda_min_clipped are left out.
  int64_t last_timestep() const {
    const auto least =
        static_cast<float>(config_.get_float("lambda_min_clipped", -std::numeric_limits<double>::infinity()));
    int64_t weaker = 0;
    for (const float alpha : noise_.alphas_cumprod)
      if (std::log(std::sqrt(alpha)) - std::log(std::sqrt(1 - alpha)) < least) ++weaker;
    return noise_.size() - weaker;
  }

  void round_places() {
    if (config_.get_string("beta_schedule", "linear") != "squaredcos_cap_v2") round_all(timesteps_);
  }

  std::vector<double> flow_sigmas(int64_t steps, const NoiseScheduleOptions& options) const {
    double shift = config_.get_float("flow_shift", 1);
    if (options.mu) {
      if (!config_.get_bool("use_dynamic_shifting", false))
        fail("{}: a shift by the size of the picture needs use_dynamic_shifting", config_.where());
      shift = std::exp(*options.mu);
    }
    std::vector<double> sigmas = linear_space(1, 1 / static_cast<double>(noise_.size()), steps + 1);
    for (double& sigma : sigmas) {
      sigma = 1 - sigma;
      sigma = shift * sigma / (1 + (shift - 1) * sigma);
    }
    std::reverse(sigmas.begin(), sigmas.end());
    sigmas.pop_back();
    return sigmas;
  }

  // A model that learned its variance gives it behind the first three channels.
  std::vector<float> predicted(std::span<const float> given, size_t count, const DenoisingStep& request) const {
    if (!learned_variance_ || prediction_type_ != "epsilon" || given.size() == count)
      return {given.begin(), given.end()};
    const auto rows = static_cast<size_t>(request.rows);
    if (request.channels != 3 || given.size() != 2 * count)
      fail("DPMSolverMultistepScheduler: variance_type: expected 6 channels for samples of 3");
    std::vector<float> result;
    for (size_t row = 0; row < rows; ++row) {
      const auto begin = given.begin() + static_cast<ptrdiff_t>(2 * row * (count / rows));
      result.insert(result.end(), begin, begin + static_cast<ptrdiff_t>(count / rows));
    }
    return result;
  }

  // Into what the algorithm integrates: the sample without noise (++), or the noise.
  void convert(std::vector<float>& output, std::span<const float> sample, float sigma, int64_t rows) const {
    const Level level = level_of(sigma);
    const auto each = [&](auto rule) {
      for (size_t i = 0; i < output.size(); ++i) output[i] = rule(output[i], sample[i]);
    };
    const auto to_data = [&](float o, float s) { return (s - level.sigma * o) / level.alpha; };
    const auto to_noise = [&](float o, float s) { return (s - level.alpha * o) / level.sigma; };
    if (data_) {
      if (prediction_type_ == "epsilon") each(to_data);
      else if (prediction_type_ == "v_prediction")
        each([&](float o, float s) { return level.alpha * s - level.sigma * o; });
      else if (prediction_type_ == "flow_prediction") each([&](float o, float s) { return s - sigma * o; });
      bounds_.apply(output, rows);
      return;
    }
    if (prediction_type_ == "sample") each(to_noise);
    else if (prediction_type_ == "v_prediction")
      each([&](float o, float s) { return level.alpha * o + level.sigma * s; });
    if (!bounds_.thresholds()) return;
    each(to_data);
    bounds_.apply(output, rows);
    each(to_noise);
  }

  // x_t = a x + b D0 + c D1 + d D2 + e noise.
  struct Weights {
    float x, d0, d1 = 0, d2 = 0, noise = 0;
  };
  Weights weights(int64_t order, const Level& t, const Level& s, float h) const {
    const bool heun = heun_ || order == 3;
    if (data_ && !stochastic_) {
      const float e = std::exp(-h) - 1;
      return {t.sigma / s.sigma, -t.alpha * e, heun ? t.alpha * (e / h + 1) : -0.5f * (t.alpha * e),
              -t.alpha * ((e + h) / (h * h) - 0.5f)};
    }
    if (!stochastic_) {
      const float e = std::exp(h) - 1;
      return {t.alpha / s.alpha, -t.sigma * e, heun ? -t.sigma * (e / h - 1) : -0.5f * (t.sigma * e),
              -t.sigma * ((e - h) / (h * h) - 0.5f)};
    }
    if (data_) {
      const float e = 1 - std::exp(-2 * h);
      return {t.sigma / s.sigma * std::exp(-h), t.alpha * e, heun ? t.alpha * (e / (-2 * h) + 1) : 0.5f * (t.alpha * e),
              t.alpha * ((e - 2 * h) / (2 * h * (2 * h)) - 0.5f), t.sigma * std::sqrt(e)};
    }
    const float e = std::exp(h) - 1;
    return {t.alpha / s.alpha, -2 * (t.sigma * e), heun ? -2 * (t.sigma * (e / h - 1)) : -t.sigma * e, 0,
            t.sigma * std::sqrt(std::exp(2 * h) - 1)};
  }

  std::vector<float> update(int64_t order, size_t index, std::span<const float> sample,
                            const std::vector<float>& noise) const {
    const Level t = level_of(sigmas_[index + 1]), s = level_of(sigmas_[index]);
    const float h = t.lambda() - s.lambda();
    const Weights w = weights(order, t, s, h);
    const std::vector<float>& m0 = outputs_.back();
    std::vector<float> result(sample.size());
    float r0 = 1, r1 = 1;
    if (order > 1) r0 = (s.lambda() - level_of(sigmas_[index - 1]).lambda()) / h;
    if (order > 2) r1 = (level_of(sigmas_[index - 1]).lambda() - level_of(sigmas_[index - 2]).lambda()) / h;
    for (size_t i = 0; i < result.size(); ++i) {
      float value = w.x * sample[i] + w.d0 * m0[i];
      if (order > 1) {
        const float m1 = outputs_[outputs_.size() - 2][i];
        const float difference = 1 / r0 * (m0[i] - m1);
        float d1 = difference;
        if (order > 2) {
          const float older = 1 / r1 * (m1 - outputs_[outputs_.size() - 3][i]);
          d1 = difference + r0 / (r0 + r1) * (difference - older);
          value += w.d2 * (1 / (r0 + r1) * (difference - older));
        }
        value += w.d1 * d1;
      }
      if (!noise.empty()) value += w.noise * noise[i];
      result[i] = value;
    }
    return result;
  }

  Config config_;
  TrainedNoise noise_;
  SampleBounds bounds_;
  SigmaForm form_;
  Spacing spacing_;
  int64_t steps_offset_, order_;
  std::string prediction_type_;
  bool lower_order_final_, euler_at_final_, uses_flow_, learned_variance_;
  bool data_ = true, stochastic_ = false, heun_ = false, ends_at_zero_ = true;
  std::vector<std::vector<float>> outputs_;  // converted, the newest last
};

}  // namespace

std::unique_ptr<Scheduler> make_dpm_solver(const Config& config) {
  return std::make_unique<DpmSolverScheduler>(config);
}

}  // namespace transom
