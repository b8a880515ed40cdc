// SPDX-License-Identifier: Apache-2.0
// UniPC (Zhao et al., 2023): a predictor of several steps, and a corrector that uses what the model says of what was
// predicted. Refuses another scheduler as its predictor (solver_p).
#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "models/diffusion/schedulers/schedule_parts.h"

namespace transom {
namespace {

// Solves a small system by elimination with pivots.
std::vector<double> solved(std::vector<std::vector<double>> rows, std::vector<double> right) {
  const size_t n = right.size();
  for (size_t k = 0; k < n; ++k) {
    size_t pivot = k;
    for (size_t i = k + 1; i < n; ++i)
      if (std::abs(rows[i][k]) > std::abs(rows[pivot][k])) pivot = i;
    std::swap(rows[k], rows[pivot]);
    std::swap(right[k], right[pivot]);
    for (size_t i = k + 1; i < n; ++i) {
      const double factor = rows[i][k] / rows[k][k];
      for (size_t j = k; j < n; ++j) rows[i][j] -= factor * rows[k][j];
      right[i] -= factor * right[k];
    }
  }
  for (size_t k = n; k-- > 0;) {
    for (size_t j = k + 1; j < n; ++j) right[k] -= rows[k][j] * right[j];
    right[k] /= rows[k][k];
  }
  return right;
}

class UniPcScheduler : public Scheduler {
 public:
  explicit UniPcScheduler(const Config& config)
      : config_(config),
        noise_(config, 1e-4, 0.02, "linear", {"linear", "scaled_linear", "squaredcos_cap_v2"}, ZeroSignal::kNearZero),
        bounds_(config, SampleBounds::Clips::kNever),
        form_(sigma_form_of(config)),
        spacing_(spacing_of(config, "linspace")),
        steps_offset_(config.get_int("steps_offset", 0)),
        order_(config.get_int("solver_order", 2)),
        prediction_type_(
            one_of(config, "prediction_type", "epsilon", {"epsilon", "sample", "v_prediction", "flow_prediction"})),
        predicts_data_(config.get_bool("predict_x0", true)),
        is_bh1_(one_of(config, "solver_type", "bh2", {"bh1", "bh2", "midpoint", "heun", "logrho"}) == "bh1"),
        lower_order_final_(config.get_bool("lower_order_final", true)),
        uses_flow_(config.get_bool("use_flow_sigmas", false)),
        is_linear_shift_(one_of(config, "time_shift_type", "exponential", {"exponential", "linear"}) == "linear"),
        uncorrected_(config.get_ints("disable_corrector", {})) {
    if (order_ < 1 || order_ > 8) fail("{}: solver_order: expected 1 to 8, found {}", config.where(), order_);
    if (config.has("solver_p"))
      fail(ErrorKind::kUnsupported, "{}: solver_p: another predictor than UniP is not carried out", config.where());
    if (config.has("shift_terminal") && !uses_flow_)
      fail("{}: shift_terminal has a meaning with use_flow_sigmas alone", config.where());
    if (!predicts_data_ && prediction_type_ == "flow_prediction")
      fail("{}: prediction_type: flow_prediction needs predict_x0", config.where());
    last_sigma(config, 0);
  }

  void set_timesteps(int64_t steps, const NoiseScheduleOptions& options) override {
    checked_steps(steps, noise_.size(), "UniPCMultistepScheduler");
    if (config_.get_bool("use_dynamic_shifting", false) && !options.mu)
      fail("{}: use_dynamic_shifting needs the size of a picture", config_.where());
    timesteps_ = solver_timesteps(spacing_, noise_.size(), noise_.size(), steps, steps_offset_);
    const auto trained = static_cast<double>(noise_.size());
    std::vector<double> sigmas;
    if (form_ != SigmaForm::kPlain) {
      sigmas = formed_sigmas(form_, config_, noise_.sigmas.back(), noise_.sigmas.front(), steps);
      timesteps_ = timesteps_of_sigmas(sigmas, noise_.log_sigmas);
      if (form_ == SigmaForm::kKarras) round_all(timesteps_);
      if (form_ == SigmaForm::kKarras && uses_flow_) {
        for (double& sigma : sigmas) sigma = sigma / (sigma + 1);
        timesteps_ = sigmas;
        for (double& t : timesteps_) t *= trained;
      }
    } else if (uses_flow_) {
      sigmas = options.sigmas;
      if (sigmas.empty()) {
        sigmas = linear_space(1, 1 / trained, steps + 1);
        sigmas.pop_back();
      }
      shift(sigmas, options);
      timesteps_ = sigmas;
      for (double& t : timesteps_) t *= trained;
    } else sigmas = interpolated(timesteps_, noise_.sigmas);
    const bool plain = form_ == SigmaForm::kPlain && !uses_flow_;
    sigmas_ = with_last(sigmas, last_sigma(config_, plain ? noise_.sigmas.front() : sigmas.back()));
    truncate_all(timesteps_);
    outputs_.clear();
    last_sample_.clear();
  }
  std::string prediction_type() const override { return prediction_type_; }
  std::span<const float> alphas_cumprod() const override { return noise_.alphas_cumprod; }

  std::vector<float> step(size_t index, std::span<const float> model_output, std::span<const float> given,
                          const DenoisingStep& request) override {
    check_sample(model_output, given, index, timesteps_.size());
    std::vector<float> sample(given.begin(), given.end()), output(model_output.begin(), model_output.end());
    convert(output, sample, sigmas_[index], request.rows);
    const bool corrected =
        index > 0 && !last_sample_.empty() &&
        std::find(uncorrected_.begin(), uncorrected_.end(), static_cast<int64_t>(index) - 1) == uncorrected_.end();
    if (corrected) sample = update(index, last_sample_, last_order_, &output);
    const auto known = static_cast<int64_t>(outputs_.size());
    outputs_.push_back(std::move(output));
    if (known >= order_) outputs_.erase(outputs_.begin());
    const auto left = static_cast<int64_t>(timesteps_.size() - index);
    last_order_ = std::min(lower_order_final_ ? std::min(order_, left) : order_, known + 1);
    last_sample_ = sample;
    return update(index + 1, sample, last_order_, nullptr);
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

  void shift(std::vector<double>& sigmas, const NoiseScheduleOptions& options) const {
    const double by = config_.get_float("flow_shift", 1);
    const bool dynamic = config_.get_bool("use_dynamic_shifting", false);
    const double mu = dynamic ? (is_linear_shift_ ? *options.mu : std::exp(*options.mu)) : 0;
    for (double& sigma : sigmas) sigma = dynamic ? mu / (mu + (1 / sigma - 1)) : by * sigma / (1 + (by - 1) * sigma);
    if (const double end = config_.get_float("shift_terminal", 0); end != 0) {
      const double factor = (1 - sigmas.back()) / (1 - end);
      for (double& sigma : sigmas) sigma = 1 - (1 - sigma) / factor;
    }
    if (std::abs(sigmas.front() - 1) < 1e-6) sigmas.front() -= 1e-6;
  }

  void convert(std::vector<float>& output, std::span<const float> sample, float sigma, int64_t rows) const {
    const Level level = level_of(sigma);
    for (size_t i = 0; i < output.size(); ++i) {
      const float o = output[i], s = sample[i];
      if (predicts_data_) {
        if (prediction_type_ == "epsilon") output[i] = (s - level.sigma * o) / level.alpha;
        else if (prediction_type_ == "v_prediction") output[i] = level.alpha * s - level.sigma * o;
        else if (prediction_type_ == "flow_prediction") output[i] = s - sigma * o;
      } else if (prediction_type_ == "sample") output[i] = (s - level.alpha * o) / level.sigma;
      else if (prediction_type_ == "v_prediction") output[i] = level.alpha * o + level.sigma * s;
    }
    if (predicts_data_) bounds_.apply(output, rows);
  }

  // From level index - 1 to level index, of the order. `newest`: what the model says there, of the corrector.
  std::vector<float> update(size_t index, std::span<const float> x, int64_t order,
                            const std::vector<float>* newest) const {
    const Level t = level_of(sigmas_[index]), s = level_of(sigmas_[index - 1]);
    const float from = s.lambda(), h = t.lambda() - from, hh = predicts_data_ ? -h : h;
    const std::vector<float>& m0 = outputs_.back();
    std::vector<float> ratios;
    for (int64_t i = 1; i < order; ++i)
      ratios.push_back((level_of(sigmas_[index - 1 - static_cast<size_t>(i)]).lambda() - from) / h);
    const float phi = std::expm1(hh), scale = is_bh1_ ? hh : phi;
    const std::vector<float> weights = rhos(order, ratios, hh, scale, newest != nullptr);
    const float of_x = predicts_data_ ? t.sigma / s.sigma : t.alpha / s.alpha,
                factor = predicts_data_ ? t.alpha : t.sigma;
    std::vector<float> result(x.size());
    for (size_t i = 0; i < result.size(); ++i) {
      float rest = 0;
      for (size_t k = 0; k < ratios.size(); ++k)
        rest += weights[k] * ((outputs_[outputs_.size() - 2 - k][i] - m0[i]) / ratios[k]);
      if (newest) rest += weights.back() * ((*newest)[i] - m0[i]);
      result[i] = of_x * x[i] - factor * phi * m0[i] - factor * scale * rest;
    }
    return result;
  }

  // Weights of the differences: those of the predictor leave out the last condition.
  static std::vector<float> rhos(int64_t order, std::vector<float> ratios, float hh, float scale, bool corrects) {
    if (order == 1) return corrects ? std::vector<float>{0.5f} : std::vector<float>{};
    if (order == 2 && !corrects) return {0.5f};
    ratios.push_back(1);
    const auto n = static_cast<size_t>(corrects ? order : order - 1);
    std::vector<std::vector<double>> rows;
    std::vector<double> right;
    float phi = std::expm1(hh) / hh - 1, factorial = 1;
    for (size_t i = 1; i <= n; ++i) {
      rows.emplace_back();
      for (size_t k = 0; k < n; ++k) rows.back().push_back(std::pow(ratios[k], static_cast<float>(i - 1)));
      right.push_back(phi * factorial / scale);
      factorial *= static_cast<float>(i + 1);
      phi = phi / hh - 1 / factorial;
    }
    const std::vector<double> exact = solved(std::move(rows), std::move(right));
    return {exact.begin(), exact.end()};
  }

  Config config_;
  TrainedNoise noise_;
  SampleBounds bounds_;
  SigmaForm form_;
  Spacing spacing_;
  int64_t steps_offset_, order_, last_order_ = 1;
  std::string prediction_type_;
  bool predicts_data_, is_bh1_, lower_order_final_, uses_flow_, is_linear_shift_;
  std::vector<int64_t> uncorrected_;
  std::vector<std::vector<float>> outputs_;  // converted, the newest last
  std::vector<float> last_sample_;
};

}  // namespace

std::unique_ptr<Scheduler> make_unipc(const Config& config) { return std::make_unique<UniPcScheduler>(config); }

}  // namespace transom
