// SPDX-License-Identifier: Apache-2.0
#include "work/train/tasks/diffusion/flows/flow_noise.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "base/error.h"
#include "base/threads/threads.h"
#include "files/config/config.h"
#include "transom/ops.h"

namespace transom {
namespace {

constexpr int64_t kMostPlaces = 1'000'000;
constexpr auto kPi = std::numbers::pi_v<float>;

}  // namespace

FlowNoise::FlowNoise(const Config& schedule, const ScriptArguments& script, std::string weighting_scheme,
                     bool is_packed, std::optional<double> guidance)
    : scheme_(std::move(weighting_scheme)),
      mean_(static_cast<float>(script.logit_mean)),
      deviation_(static_cast<float>(script.logit_std)),
      mode_scale_(static_cast<float>(script.mode_scale)),
      is_packed_(is_packed),
      guidance_(guidance) {
  const int64_t count = schedule.get_int("num_train_timesteps", 1000);
  if (count < 1 || count > kMostPlaces)
    fail("{}: num_train_timesteps: expected 1 to {}, found {}", schedule.where(), kMostPlaces, count);
  // A schedule that is shifted by the size of a picture is not shifted in training.
  const double shift = schedule.get_bool("use_dynamic_shifting", false) ? 1 : schedule.get_float("shift", 1);
  if (!(shift > 0) || !std::isfinite(shift))
    fail("{}: shift: expected a number above 0, found {}", schedule.where(), shift);
  const auto by = static_cast<float>(shift), less = static_cast<float>(shift - 1);
  for (int64_t t = count; t > 0; --t) {
    const float sigma = static_cast<float>(t) / static_cast<float>(count);
    sigmas_.push_back(by * sigma / (1 + less * sigma));
  }
}

size_t FlowNoise::drawn_place(Mt19937& random) const {
  float u = 0;
  if (scheme_ == "logit_normal") {
    std::vector<float> normal(1);
    random.fill_normal(normal);
    u = 1 / (1 + std::exp(-(mean_ + deviation_ * normal[0])));
  } else {
    u = random.uniform();
    if (scheme_ == "mode") {
      const float cosine = std::cos(kPi * u / 2);
      u = 1 - u - mode_scale_ * (cosine * cosine - 1 + u);
    }
  }
  const auto count = static_cast<float>(sigmas_.size());
  return static_cast<size_t>(std::clamp(u * count, 0.0f, count - 1));
}

float FlowNoise::weight_of(float sigma) const {
  if (scheme_ == "sigma_sqrt") return 1 / (sigma * sigma);
  if (scheme_ == "cosmap") return 2 / (kPi * (1 - 2 * sigma + 2 * sigma * sigma));
  return 1;
}

void FlowNoise::draw(Batch& batch, int64_t channels, int64_t height, int64_t width, std::span<Mt19937> randoms,
                     std::span<const RowCount> counts) const {
  const size_t rows = randoms.size();
  const auto B = static_cast<int64_t>(rows);
  const auto size = static_cast<size_t>(channels * height * width);
  const auto made = [&](const char* name, Shape shape) -> std::vector<float>& {
    FloatRows& all = batch.arrays[name];
    all.values.resize(static_cast<size_t>(elements(shape)));
    all.shape = std::move(shape);
    return all.values;
  };
  std::vector<float>& noise = made(kNoise, {B, channels, height, width});
  std::vector<float>&kept = made(kKept, {B, 1, 1, 1}), &added = made(kAdded, {B, 1, 1, 1});
  std::vector<float>& time = made(kTimestep, {B});
  const bool weighs = scheme_ == "sigma_sqrt" || scheme_ == "cosmap" || !counts.empty();
  std::vector<float>* weights = weighs ? &made(kRowWeight, {B, 1, 1, 1}) : nullptr;
  if (guidance_) std::ranges::fill(made(kToldGuidance, {B}), *guidance_);
  const auto count = static_cast<float>(sigmas_.size());
  parallel_for(rows, [&](size_t i) {
    randoms[i].fill_normal(std::span(noise).subspan(i * size, size));
    const float sigma = sigmas_[drawn_place(randoms[i])];
    kept[i] = 1 - sigma;
    added[i] = sigma;
    time[i] = is_packed_ ? sigma * count / 1000 : sigma * count;
    if (weights) (*weights)[i] = (counts.empty() ? 1 : counts[i].factor) * weight_of(sigma);
  });
}

}  // namespace transom
