// SPDX-License-Identifier: Apache-2.0
// PNDM (Liu et al., 2022): Runge-Kutta steps at first (PRK), then linear multi-step ones (PLMS).
#include <algorithm>
#include <cmath>
#include <utility>

#include "base/error.h"
#include "models/diffusion/schedulers/schedule_parts.h"

namespace transom {
namespace {

constexpr int64_t kPndmOrder = 4;

class PndmScheduler : public Scheduler {
 public:
  explicit PndmScheduler(const Config& config)
      : noise_(config, 1e-4, 0.02, "linear", {"linear", "scaled_linear", "squaredcos_cap_v2"}, ZeroSignal::kNoField),
        spacing_(spacing_of(config, "leading")),
        steps_offset_(config.get_int("steps_offset", 0)),
        skips_prk_(config.get_bool("skip_prk_steps", false)),
        last_alpha_(config.get_bool("set_alpha_to_one", false) ? 1.0f : noise_.alphas_cumprod.front()),
        prediction_type_(one_of(config, "prediction_type", "epsilon", {"epsilon", "v_prediction"})) {}

  void set_timesteps(int64_t steps, const NoiseScheduleOptions&) override {
    steps_ = checked_steps(steps, noise_.size(), "PNDMScheduler");
    if (!skips_prk_ && steps < kPndmOrder)
      fail(ErrorKind::kUsage, "num_inference_steps: PNDMScheduler without skip_prk_steps takes {} or more, found {}",
           kPndmOrder, steps);
    std::vector<double> rising = spaced_timesteps(spacing_, noise_.size(), steps, steps_offset_);
    round_all(rising);
    std::reverse(rising.begin(), rising.end());
    timesteps_.clear();
    prk_.clear();
    if (skips_prk_) {
      timesteps_ = rising;
      if (steps > 1) timesteps_.insert(timesteps_.end() - 1, rising[rising.size() - 2]);
      std::reverse(timesteps_.begin(), timesteps_.end());
    } else {
      const auto half = static_cast<double>(noise_.size() / steps / 2);
      std::vector<double> pairs;
      for (size_t i = rising.size() - kPndmOrder; i < rising.size(); ++i) {
        pairs.push_back(rising[i]);
        pairs.push_back(rising[i] + half);
      }
      pairs.pop_back();
      for (const double t : pairs) prk_.insert(prk_.end(), 2, t);
      prk_ = {prk_.rbegin() + 1, prk_.rend() - 1};
      timesteps_ = prk_;
      timesteps_.insert(timesteps_.end(), rising.rbegin() + 3, rising.rend());
    }
    estimates_.clear();
    kept_sample_.clear();
    counter_ = 0;
    sum_.clear();
  }
  std::string prediction_type() const override { return prediction_type_; }
  std::span<const float> alphas_cumprod() const override { return noise_.alphas_cumprod; }

  std::vector<float> step(size_t index, std::span<const float> model_output, std::span<const float> sample,
                          const DenoisingStep&) override {
    check_sample(model_output, sample, index, timesteps_.size());
    const auto t = static_cast<int64_t>(timesteps_[index]);
    if (!skips_prk_ && counter_ < static_cast<int64_t>(prk_.size())) return step_prk(t, model_output, sample);
    return step_plms(t, model_output, sample);
  }

  std::vector<float> add_noise(std::span<const float> original, std::span<const float> noise,
                               size_t index) const override {
    const float alpha = noise_.alpha(static_cast<int64_t>(timesteps_.at(index)));
    return combined(std::sqrt(alpha), original, std::sqrt(1 - alpha), noise);
  }

 private:
  using Numbers = std::vector<float>;

  Numbers step_prk(int64_t t, std::span<const float> output, std::span<const float> sample) {
    const int64_t before = t - (counter_ % 2 ? 0 : noise_.size() / steps_ / 2);
    const auto from = static_cast<int64_t>(prk_[static_cast<size_t>(counter_ / 4 * 4)]);
    Numbers used(output.begin(), output.end());
    if (counter_ % 4 == 0) {
      sum_ = used;
      for (float& value : sum_) value *= 1.0f / 6;
      estimates_.push_back(used);
      kept_sample_.assign(sample.begin(), sample.end());
    } else {
      const bool last = counter_ % 4 == 3;
      if (sum_.size() != used.size()) sum_.assign(used.size(), 0);
      for (size_t i = 0; i < used.size(); ++i) sum_[i] += (last ? 1.0f / 6 : 1.0f / 3) * used[i];
      if (last) used = std::exchange(sum_, {});
    }
    ++counter_;
    return before_sample(kept_sample_.empty() ? sample : kept_sample_, from, before, used);
  }

  Numbers step_plms(int64_t t, std::span<const float> output, std::span<const float> sample) {
    if (!skips_prk_ && estimates_.size() < 3)
      fail("PNDMScheduler: a run without skip_prk_steps begins with its first 12 calls of the model");
    const int64_t stride = noise_.size() / steps_;
    int64_t before = t - stride;
    Numbers used(output.begin(), output.end()), from(sample.begin(), sample.end());
    if (counter_ != 1) {
      if (estimates_.size() > 3) estimates_.erase(estimates_.begin(), estimates_.end() - 3);
      estimates_.push_back(used);
    } else {
      before = t;
      t += stride;
    }
    const auto e = [&](size_t back, size_t i) { return estimates_[estimates_.size() - back][i]; };
    const size_t known = estimates_.size();
    if (known == 1 && counter_ == 0) kept_sample_ = from;
    else if (known == 1 && counter_ == 1) from = std::exchange(kept_sample_, {});
    for (size_t i = 0; i < used.size(); ++i) {
      if (known == 1 && counter_ == 1) used[i] = (used[i] + e(1, i)) / 2;
      else if (known == 2) used[i] = (3 * e(1, i) - e(2, i)) / 2;
      else if (known == 3) used[i] = (23 * e(1, i) - 16 * e(2, i) + 5 * e(3, i)) / 12;
      else if (known > 3) used[i] = 1.0f / 24 * (55 * e(1, i) - 59 * e(2, i) + 37 * e(3, i) - 9 * e(4, i));
    }
    ++counter_;
    return before_sample(from, t, before, used);
  }

  // Formula (9) of the paper.
  Numbers before_sample(std::span<const float> sample, int64_t t, int64_t before, Numbers output) const {
    const float alpha = noise_.alpha(t), alpha_before = before >= 0 ? noise_.alpha(before) : last_alpha_;
    const float beta = 1 - alpha, beta_before = 1 - alpha_before;
    if (prediction_type_ == "v_prediction") output = combined(std::sqrt(alpha), output, std::sqrt(beta), sample);
    const float factor = std::sqrt(alpha_before / alpha);
    const float divisor = alpha * std::sqrt(beta_before) + std::sqrt(alpha * beta * alpha_before);
    for (size_t i = 0; i < output.size(); ++i)
      output[i] = factor * sample[i] - (alpha_before - alpha) * output[i] / divisor;
    return output;
  }

  TrainedNoise noise_;
  Spacing spacing_;
  int64_t steps_offset_, steps_ = 1, counter_ = 0;
  bool skips_prk_;
  float last_alpha_;
  std::string prediction_type_;
  std::vector<double> prk_;
  std::vector<Numbers> estimates_;
  Numbers kept_sample_, sum_;
};

}  // namespace

std::unique_ptr<Scheduler> make_pndm(const Config& config) { return std::make_unique<PndmScheduler>(config); }

}  // namespace transom
