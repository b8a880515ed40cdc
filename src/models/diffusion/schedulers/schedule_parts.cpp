// SPDX-License-Identifier: Apache-2.0
#include "models/diffusion/schedulers/schedule_parts.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "base/error.h"
#include "base/json/json.h"

namespace transom {
namespace {

constexpr int64_t kMostTimesteps = 100000;
constexpr float kLeastAlpha = 0x1p-24f;

double alpha_bar(std::string_view kind, double t) {
  if (kind == "cosine") {
    const double c = std::cos((t + 0.008) / 1.008 * std::numbers::pi / 2);
    return c * c;
  }
  if (kind == "exp") return std::exp(t * -12.0);
  const double level = -0.5 * std::copysign(1.0, 0.5 - t) * std::log(1 - 2 * std::abs(0.5 - t) + 1e-6);
  const double ratio = std::exp(level);
  return std::sqrt(ratio / (1 + ratio));
}

std::vector<float> betas_of_alpha_bar(std::string_view kind, int64_t count) {
  std::vector<float> betas;
  const auto n = static_cast<double>(count);
  for (int64_t i = 0; i < count; ++i) {
    const auto at = static_cast<double>(i);
    betas.push_back(static_cast<float>(std::min(1 - alpha_bar(kind, (at + 1) / n) / alpha_bar(kind, at / n), 0.999)));
  }
  return betas;
}

std::vector<float> given_betas(const Config& config, int64_t count) {
  const Json list = parse_json(config.get_json("trained_betas"), config.where());
  if (!list.is_array() || static_cast<int64_t>(list.size()) != count)
    fail("{}: trained_betas: expected num_train_timesteps numbers, {}, found {}", config.where(), count,
         list.is_array() ? std::to_string(list.size()) : std::string(list.type_name()));
  std::vector<float> betas;
  for (const Json& beta : list) {
    if (!beta.is_number()) fail("{}: trained_betas: expected numbers, found {}", config.where(), beta.dump());
    betas.push_back(beta.get<float>());
  }
  return betas;
}

// Sums of products are double in torch, their places float32.
std::vector<float> products_of(const std::vector<float>& alphas) {
  std::vector<float> products;
  double product = 1;
  for (const float alpha : alphas) products.push_back(static_cast<float>(product *= alpha));
  return products;
}

// Lin et al. (2023): the last timestep has no signal left.
void rescale_to_no_signal(std::vector<float>& betas) {
  std::vector<float> alphas;
  for (const float beta : betas) alphas.push_back(1.0f - beta);
  std::vector<float> roots = products_of(alphas);
  for (float& root : roots) root = std::sqrt(root);
  const float first = roots.front(), last = roots.back(), factor = first / (first - last);
  for (float& root : roots) root = (root - last) * factor;
  for (size_t i = 0; i < roots.size(); ++i) {
    const float bar = roots[i] * roots[i];
    betas[i] = 1 - (i == 0 ? bar : bar / (roots[i - 1] * roots[i - 1]));
  }
}

// The regularised incomplete beta function by its continued fraction (Lentz's method).
double incomplete_beta(double a, double b, double x) {
  if (x <= 0) return 0;
  if (x >= 1) return 1;
  if (x > (a + 1) / (a + b + 2)) return 1 - incomplete_beta(b, a, 1 - x);
  const double front =
      std::exp(std::lgamma(a + b) - std::lgamma(a) - std::lgamma(b) + a * std::log(x) + b * std::log1p(-x)) / a;
  double f = 1, c = 1, d = 0;
  for (int i = 0; i <= 400; ++i) {
    const int m = i / 2;
    const double numerator = i == 0       ? 1
                             : i % 2 == 0 ? m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m))
                                          : -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1));
    d = 1 + numerator * d;
    d = 1 / (std::abs(d) < 1e-300 ? 1e-300 : d);
    c = 1 + numerator / c;
    if (std::abs(c) < 1e-300) c = 1e-300;
    f *= c * d;
    if (std::abs(1 - c * d) < 1e-15) break;
  }
  return front * (f - 1);
}

// Where the beta distribution has the share `p` below it.
double beta_quantile(double p, double a, double b) {
  if (p <= 0) return 0;
  if (p >= 1) return 1;
  double low = 0, high = 1;
  for (int i = 0; i < 200 && low < high; ++i) {
    const double middle = 0.5 * (low + high);
    if (middle == low || middle == high) break;
    (incomplete_beta(a, b, middle) < p ? low : high) = middle;
  }
  return 0.5 * (low + high);
}

}  // namespace

std::string one_of(const Config& config, const std::string& field, const std::string& otherwise,
                   std::initializer_list<std::string_view> words) {
  std::string word = config.get_string(field, otherwise);
  if (std::find(words.begin(), words.end(), word) == words.end())
    fail(ErrorKind::kUnsupported, "{}: {}: expected one of {}, found {}", config.where(), field, fmt::join(words, ", "),
         quoted(word));
  return word;
}

int64_t trained_timesteps(const Config& config) {
  const int64_t count = config.get_int("num_train_timesteps", 1000);
  if (count < 1 || count > kMostTimesteps)
    fail("{}: num_train_timesteps: expected 1 to {}, found {}", config.where(), kMostTimesteps, count);
  return count;
}

int64_t checked_steps(int64_t steps, int64_t limit, std::string_view who) {
  if (steps < 1 || steps > limit)
    fail(ErrorKind::kUsage, "num_inference_steps: {} takes 1 to {}, found {}", who, limit, steps);
  return steps;
}

TrainedNoise::TrainedNoise(const Config& config, double beta_start, double beta_end, const std::string& schedule,
                           std::initializer_list<std::string_view> schedules, ZeroSignal zero) {
  const int64_t count = trained_timesteps(config);
  const double start = config.get_float("beta_start", beta_start), end = config.get_float("beta_end", beta_end);
  const std::string kind = one_of(config, "beta_schedule", schedule, schedules);
  std::vector<float> betas;
  if (config.has("trained_betas")) betas = given_betas(config, count);
  else if (kind == "linear") betas = linear_space_f32(static_cast<float>(start), static_cast<float>(end), count);
  else if (kind == "scaled_linear") {
    if (start < 0 || end < 0)
      fail("{}: beta_start and beta_end: expected numbers from 0, found {} and {}", config.where(), start, end);
    betas = linear_space_f32(static_cast<float>(std::sqrt(start)), static_cast<float>(std::sqrt(end)), count);
    for (float& beta : betas) beta *= beta;
  } else if (kind == "sigmoid") {
    betas = linear_space_f32(-6, 6, count);
    for (float& beta : betas)
      beta = 1 / (1 + std::exp(-beta)) * static_cast<float>(end - start) + static_cast<float>(start);
  } else betas = betas_of_alpha_bar(kind == "squaredcos_cap_v2" ? "cosine" : kind, count);
  const bool rescaled = zero != ZeroSignal::kNoField && config.get_bool("rescale_betas_zero_snr", false);
  if (rescaled) rescale_to_no_signal(betas);
  for (float& beta : betas) beta = 1.0f - beta;
  alphas_cumprod = products_of(betas);
  if (rescaled && zero == ZeroSignal::kNearZero) alphas_cumprod.back() = kLeastAlpha;
  for (const float alpha : alphas_cumprod) {
    const float sigma = std::sqrt((1 - alpha) / alpha);
    sigmas.push_back(sigma);
    log_sigmas.push_back(std::log(sigma));
  }
}

float TrainedNoise::alpha(int64_t timestep) const {
  if (timestep < 0 || timestep >= size())
    fail("the schedule has the timestep {}, and training had 0 to {}: see steps_offset in scheduler_config.json",
         timestep, size() - 1);
  return alphas_cumprod[static_cast<size_t>(timestep)];
}

Spacing spacing_of(const Config& config, const std::string& otherwise) {
  const std::string word = one_of(config, "timestep_spacing", otherwise, {"linspace", "leading", "trailing"});
  return word == "linspace" ? Spacing::kLinspace : word == "leading" ? Spacing::kLeading : Spacing::kTrailing;
}

std::vector<double> linear_space(double first, double last, int64_t count) {
  std::vector<double> values;
  const double step = count > 1 ? (last - first) / static_cast<double>(count - 1) : 0;
  for (int64_t i = 0; i < count; ++i) values.push_back(static_cast<double>(i) * step + first);
  if (count > 1) values.back() = last;
  return values;
}

std::vector<float> linear_space_f32(float first, float last, int64_t count) {
  std::vector<float> values;
  const float step = count > 1 ? (last - first) / static_cast<float>(count - 1) : 0;
  for (int64_t i = 0; i < count; ++i)  // rounded once, as torch does it: places that are cut off hang on it
    values.push_back(i < count / 2 || count == 1 ? std::fma(step, static_cast<float>(i), first)
                                                 : std::fma(-step, static_cast<float>(count - 1 - i), last));
  return values;
}

namespace {

// numpy's arange from `from` down to 0, rounded.
std::vector<double> downward(int64_t from, double step) {
  std::vector<double> values;
  const auto first = static_cast<double>(from);
  const auto count = static_cast<int64_t>(std::ceil(first / step));
  const double difference = (first - step) - first;
  for (int64_t i = 0; i < count; ++i) values.push_back(std::nearbyint(first + static_cast<double>(i) * difference) - 1);
  return values;
}

std::vector<double> reversed(std::vector<double> values) {
  std::reverse(values.begin(), values.end());
  return values;
}

std::vector<double> multiples(int64_t step, int64_t count, int64_t offset) {
  std::vector<double> values;
  for (int64_t i = 0; i < count; ++i) values.push_back(static_cast<double>(i * step + offset));
  return values;
}

}  // namespace

std::vector<double> spaced_timesteps(Spacing spacing, int64_t trained, int64_t steps, int64_t offset) {
  if (spacing == Spacing::kLinspace) return reversed(linear_space(0, static_cast<double>(trained - 1), steps));
  if (spacing == Spacing::kLeading) return reversed(multiples(trained / steps, steps, offset));
  return downward(trained, static_cast<double>(trained) / static_cast<double>(steps));
}

std::vector<double> solver_timesteps(Spacing spacing, int64_t trained, int64_t last, int64_t steps, int64_t offset) {
  if (spacing == Spacing::kTrailing) return downward(last, static_cast<double>(trained) / static_cast<double>(steps));
  std::vector<double> values = spacing == Spacing::kLinspace ? linear_space(0, static_cast<double>(last - 1), steps + 1)
                                                             : multiples(last / (steps + 1), steps + 1, offset);
  round_all(values);
  values.erase(values.begin());
  return reversed(std::move(values));
}

std::vector<double> given_timesteps(const NoiseScheduleOptions& options, int64_t trained) {
  double before = static_cast<double>(trained);
  for (const double t : options.timesteps) {
    if (!(t >= 0 && t < before && t == std::trunc(t)))
      fail(ErrorKind::kUsage,
           "timesteps: expected whole numbers of training's, 0 to {}, each below the one before, found {}", trained - 1,
           fmt::join(options.timesteps, ", "));
    before = t;
  }
  return options.timesteps;
}

void round_all(std::vector<double>& values) {
  for (double& value : values) value = std::nearbyint(value);
}
void truncate_all(std::vector<double>& values) {
  for (double& value : values) value = std::trunc(value);
}
void round_to_float(std::vector<double>& values) {
  for (double& value : values) value = static_cast<float>(value);
}

std::vector<double> interpolated(std::span<const double> places, std::span<const double> values) {
  std::vector<double> result;
  const auto last = static_cast<double>(values.size() - 1);
  for (const double place : places) {
    if (!(place > 0)) result.push_back(values.front());
    else if (place >= last) result.push_back(values.back());
    else {
      const auto low = static_cast<size_t>(place);
      result.push_back((values[low + 1] - values[low]) * (place - static_cast<double>(low)) + values[low]);
    }
  }
  return result;
}

SigmaForm sigma_form_of(const Config& config) {
  const bool karras = config.get_bool("use_karras_sigmas", false),
             exponential = config.get_bool("use_exponential_sigmas", false),
             beta = config.get_bool("use_beta_sigmas", false);
  if (karras + exponential + beta > 1)
    fail("{}: expected one of use_karras_sigmas, use_exponential_sigmas and use_beta_sigmas, found {}", config.where(),
         karras + exponential + beta);
  return karras        ? SigmaForm::kKarras
         : exponential ? SigmaForm::kExponential
         : beta        ? SigmaForm::kBeta
                       : SigmaForm::kPlain;
}

void expect_plain_sigmas(const Config& config, const NoiseScheduleOptions& options, bool plain) {
  if (!options.timesteps.empty() && !plain)
    fail(ErrorKind::kUsage, "timesteps: {} says itself which noise levels there are (use_..._sigmas, use_lu_lambdas)",
         config.where());
}

std::vector<double> formed_sigmas(SigmaForm form, const Config& config, double highest, double lowest, int64_t count) {
  const double least = config.get_float("sigma_min", lowest), most = config.get_float("sigma_max", highest);
  if (form == SigmaForm::kExponential) {
    std::vector<double> sigmas = linear_space(std::log(most), std::log(least), count);
    for (double& sigma : sigmas) sigma = std::exp(sigma);
    return sigmas;
  }
  std::vector<double> sigmas = linear_space(0, 1, count);
  if (form == SigmaForm::kBeta) {
    for (double& sigma : sigmas) sigma = least + beta_quantile(1 - sigma, 0.6, 0.6) * (most - least);
    return sigmas;
  }
  constexpr double kRho = 7;  // Karras et al. (2022)
  const double low = std::pow(least, 1 / kRho), high = std::pow(most, 1 / kRho);
  for (double& sigma : sigmas) sigma = std::pow(high + sigma * (low - high), kRho);
  return sigmas;
}

std::vector<double> timesteps_of_sigmas(std::span<const double> sigmas, std::span<const double> log_sigmas) {
  std::vector<double> timesteps;
  if (log_sigmas.size() < 2) return std::vector<double>(sigmas.size(), 0);
  for (const double sigma : sigmas) {
    const double level = std::log(std::max(sigma, 1e-10));
    size_t low = 0;
    for (size_t i = 0; i < log_sigmas.size(); ++i)
      if (level - log_sigmas[i] >= 0) low = i;
    low = std::min(low, log_sigmas.size() - 2);
    const double width = static_cast<float>(log_sigmas[low]) - static_cast<float>(log_sigmas[low + 1]);
    const double weight = std::clamp((log_sigmas[low] - level) / width, 0.0, 1.0);
    timesteps.push_back((1 - weight) * static_cast<double>(low) + weight * static_cast<double>(low + 1));
  }
  return timesteps;
}

std::vector<float> with_last(const std::vector<double>& sigmas, double last) {
  std::vector<float> all;
  for (const double sigma : sigmas) all.push_back(static_cast<float>(sigma));
  all.push_back(static_cast<float>(last));
  return all;
}

double last_sigma(const Config& config, double least) {
  return one_of(config, "final_sigmas_type", "zero", {"zero", "sigma_min"}) == "zero" ? 0 : least;
}

SampleBounds::SampleBounds(const Config& config, Clips clips, bool has_thresholding)
    : thresholding_(has_thresholding && config.get_bool("thresholding", false)),
      clips_(clips != Clips::kNever && config.get_bool("clip_sample", clips == Clips::kByDefault)),
      ratio_(static_cast<float>(config.get_float("dynamic_thresholding_ratio", 0.995))),
      most_(static_cast<float>(config.get_float("sample_max_value", 1))),
      range_(static_cast<float>(config.get_float("clip_sample_range", 1))) {
  if (!(ratio_ >= 0 && ratio_ <= 1))
    fail("{}: dynamic_thresholding_ratio: expected 0 to 1, found {}", config.where(), ratio_);
}

void SampleBounds::apply(std::span<float> sample, int64_t rows) const {
  if (!thresholding_) {
    if (clips_)
      for (float& value : sample) value = std::min(std::max(value, -range_), range_);
    return;
  }
  const size_t width = sample.size() / static_cast<size_t>(rows);
  for (size_t row = 0; row < static_cast<size_t>(rows); ++row) {
    const std::span<float> values = sample.subspan(row * width, width);
    std::vector<float> sizes;
    for (const float value : values) sizes.push_back(std::abs(value));
    std::sort(sizes.begin(), sizes.end());
    const float place = ratio_ * static_cast<float>(width - 1);  // torch.quantile
    const auto below = static_cast<size_t>(place);
    const float a = sizes[below], b = sizes[std::min(below + 1, width - 1)], weight = place - static_cast<float>(below);
    const float quantile = weight < 0.5f ? a + weight * (b - a) : b - (b - a) * (1 - weight);
    const float bound = std::min(std::max(quantile, 1.0f), most_);
    for (float& value : values) value = std::min(std::max(value, -bound), bound) / bound;
  }
}

std::vector<float> combined(float a, std::span<const float> x, float b, std::span<const float> y) {
  std::vector<float> result(x.size());
  for (size_t i = 0; i < x.size(); ++i) result[i] = a * x[i] + b * y[i];
  return result;
}

std::vector<float> normal_numbers(size_t count, const DenoisingStep& request) {
  if (!request.noise) fail(ErrorKind::kInternal, "a step of this scheduler draws noise: DenoisingStep::noise is empty");
  std::vector<float> numbers(count);
  request.noise(numbers);
  return numbers;
}

void check_sample(std::span<const float> model_output, std::span<const float> sample, size_t index, size_t calls) {
  if (index >= calls)
    fail(ErrorKind::kUsage, "scheduler: expected a call below {}, found {}: set_timesteps() makes them", calls, index);
  if (sample.empty() || model_output.size() != sample.size())
    fail("scheduler: expected a prediction for each of {} numbers of the sample, found {}", sample.size(),
         model_output.size());
}

}  // namespace transom
