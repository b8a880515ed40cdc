// SPDX-License-Identifier: Apache-2.0
#include "work/train/tasks/diffusion/training_noise.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/threads/threads.h"

namespace transom {

TrainingNoise::TrainingNoise(const Scheduler& scheduler, const ScriptArguments& script,
                             std::initializer_list<std::string_view> prediction_types, const std::string& where)
    : alphas_(scheduler.alphas_cumprod().begin(), scheduler.alphas_cumprod().end()),
      prediction_type_(script.prediction_type.value_or(scheduler.prediction_type())),
      snr_gamma_(script.snr_gamma),
      offset_(static_cast<float>(script.noise_offset)),
      perturbation_(static_cast<float>(script.input_perturbation)) {
  if (std::find(prediction_types.begin(), prediction_types.end(), prediction_type_) == prediction_types.end())
    fail(ErrorKind::kUnsupported, "{}: prediction_type: expected {}, found {}", where,
         fmt::join(prediction_types, " or "), prediction_type_);
  if (alphas_.empty())
    fail(ErrorKind::kUnsupported, "{}: expected a schedule of noise with betas (DDPM and its relatives)", where);
  if (prediction_type_ == "sample" && snr_gamma_)
    fail(ErrorKind::kUsage, "--snr_gamma: is for networks that say noise or velocity; leave it out");
  add_bias(script);
}

void TrainingNoise::add_bias(const ScriptArguments& script) {
  const std::string& strategy = script.timestep_bias_strategy;
  if (strategy == "none") return;
  const auto count = static_cast<int64_t>(alphas_.size());
  const auto portion = static_cast<int64_t>(script.timestep_bias_portion * static_cast<double>(count));
  int64_t begin = 0, end = count;
  if (strategy == "earlier") end = portion;
  if (strategy == "later") begin = count - portion;
  if (strategy == "range") begin = script.timestep_bias_begin, end = script.timestep_bias_end;
  if (begin > end || end > count)
    fail(ErrorKind::kUsage,
         "--timestep_bias_begin, --timestep_bias_end: expected a part of {} timesteps, found {} to {}", count, begin,
         end);
  double sum = 0;
  for (int64_t t = 0; t < count; ++t) {
    sum += t >= begin && t < end ? script.timestep_bias_multiplier : 1;
    likely_.push_back(sum);
  }
  for (double& each : likely_) each /= sum;
}

size_t TrainingNoise::drawn_timestep(Mt19937& random) const {
  if (likely_.empty()) return static_cast<size_t>(random.randint(static_cast<int64_t>(alphas_.size())));
  const auto found = std::lower_bound(likely_.begin(), likely_.end(), random.uniform64());
  return std::min(static_cast<size_t>(found - likely_.begin()), likely_.size() - 1);
}

// Min-SNR (Hang et al., 2023); of networks that say the clean sample the ratio itself (Salimans & Ho, 2022).
float TrainingNoise::weight_of(size_t timestep) const {
  const float root = std::sqrt(alphas_[timestep]) / std::sqrt(1 - alphas_[timestep]), ratio = root * root;
  if (prediction_type_ == "sample") return alphas_[timestep] / (1 - alphas_[timestep]);
  if (!snr_gamma_) return 1;
  return std::min(ratio, static_cast<float>(*snr_gamma_)) / (prediction_type_ == "v_prediction" ? ratio + 1 : ratio);
}

void TrainingNoise::draw(Batch& batch, int64_t channels, int64_t height, int64_t width, std::span<Mt19937> randoms,
                         std::span<const RowCount> counts) const {
  const size_t rows = randoms.size();
  const auto places = static_cast<size_t>(height * width), size = static_cast<size_t>(channels) * places;
  const auto of_rows = [&](const char* name) -> std::vector<float>& {
    FloatRows& made = batch.arrays[name];
    made.shape = {static_cast<int64_t>(rows), 1, 1, 1};
    made.values.resize(rows);
    return made.values;
  };
  FloatRows& noise = batch.arrays[kNoise];
  noise.shape = {static_cast<int64_t>(rows), channels, height, width};
  noise.values.resize(rows * size);
  const bool disturbed = perturbation_ != 0;
  FloatRows* input = disturbed ? &batch.arrays[kInputNoise] : nullptr;
  if (input) *input = noise;
  const bool weighs = snr_gamma_ || prediction_type_ == "sample" || !counts.empty();
  std::vector<float>&kept = of_rows(kKept), &added = of_rows(kAdded);
  std::vector<float>* weights = weighs ? &of_rows(kRowWeight) : nullptr;
  std::vector<int64_t>& timesteps = batch.numbers[kTimestep];
  timesteps.resize(rows);
  parallel_for(rows, [&](size_t i) {
    Mt19937& random = randoms[i];
    const std::span<float> own = std::span(noise.values).subspan(i * size, size);
    random.fill_normal(own);
    if (offset_ != 0) {
      std::vector<float> levels(static_cast<size_t>(channels));
      random.fill_normal(levels);
      for (size_t k = 0; k < size; ++k) own[k] += offset_ * levels[k / places];
    }
    if (input) {
      const std::span<float> other = std::span(input->values).subspan(i * size, size);
      random.fill_normal(other);
      for (size_t k = 0; k < size; ++k) other[k] = own[k] + perturbation_ * other[k];
    }
    const size_t t = drawn_timestep(random);
    timesteps[i] = static_cast<int64_t>(t);
    kept[i] = std::sqrt(alphas_[t]);
    added[i] = std::sqrt(1 - alphas_[t]);
    const RowCount count = counts.empty() ? RowCount() : counts[i];
    if (weights) (*weights)[i] = count.factor * (count.by_ratio ? weight_of(t) : 1);
  });
}

}  // namespace transom
