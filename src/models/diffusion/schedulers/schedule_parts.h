// SPDX-License-Identifier: Apache-2.0
// What schedulers share: the noise that training added, the spacing of a run's timesteps, forms of noise levels.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "models/diffusion/schedulers/scheduler.h"

namespace transom {

// What a class makes of rescale_betas_zero_snr: it has no such field, the last product becomes 0, or 2^-24.
enum class ZeroSignal { kNoField, kZero, kNearZero };

// How much noise each training timestep has.
struct TrainedNoise {
  std::vector<float> alphas_cumprod;
  std::vector<double> sigmas;      // sqrt((1 - a) / a), numbers of float32
  std::vector<double> log_sigmas;  // the same

  // Reads num_train_timesteps, beta_start, beta_end, beta_schedule (one of `schedules`), trained_betas and
  // rescale_betas_zero_snr.
  TrainedNoise(const Config& config, double beta_start, double beta_end, const std::string& schedule,
               std::initializer_list<std::string_view> schedules, ZeroSignal zero);
  int64_t size() const { return static_cast<int64_t>(alphas_cumprod.size()); }
  float alpha(int64_t timestep) const;  // refuses timesteps that training did not have
};

// A word of the configuration that must be one of some.
std::string one_of(const Config& config, const std::string& field, const std::string& otherwise,
                   std::initializer_list<std::string_view> words);
int64_t trained_timesteps(const Config& config);  // num_train_timesteps, 1 to 100000
int64_t checked_steps(int64_t steps, int64_t limit, std::string_view who);

// ---- spacing

enum class Spacing { kLinspace, kLeading, kTrailing };
Spacing spacing_of(const Config& config, const std::string& otherwise);
// numpy's linspace.
std::vector<double> linear_space(double first, double last, int64_t count);
// torch's linspace of float32.
std::vector<float> linear_space_f32(float first, float last, int64_t count);
// From the last training timestep to the first, `steps` of `trained`. Linspace is not rounded.
std::vector<double> spaced_timesteps(Spacing spacing, int64_t trained, int64_t steps, int64_t offset);
// The same of solvers of several steps, whose linspace and leading leave out the end of one more; trailing starts at
// `last`. Whole numbers.
std::vector<double> solver_timesteps(Spacing spacing, int64_t trained, int64_t last, int64_t steps, int64_t offset);
// Those that a run asks for: whole numbers that training had, the highest first.
std::vector<double> given_timesteps(const NoiseScheduleOptions& options, int64_t trained);
void round_all(std::vector<double>& values);
void truncate_all(std::vector<double>& values);
void round_to_float(std::vector<double>& values);

// ---- noise levels

// numpy's interp over 0, 1, 2, ...
std::vector<double> interpolated(std::span<const double> places, std::span<const double> values);
// Which of use_karras_sigmas, use_exponential_sigmas and use_beta_sigmas is set; two are refused.
enum class SigmaForm { kPlain, kKarras, kExponential, kBeta };
SigmaForm sigma_form_of(const Config& config);
// Refuses timesteps of a run's own where the configuration has another form of noise levels.
void expect_plain_sigmas(const Config& config, const NoiseScheduleOptions& options, bool plain);
// Levels of a form from the highest to the lowest; sigma_max and sigma_min of the configuration come before those.
std::vector<double> formed_sigmas(SigmaForm form, const Config& config, double highest, double lowest, int64_t count);
// The training timestep, with a fraction, that has a noise level.
std::vector<double> timesteps_of_sigmas(std::span<const double> sigmas, std::span<const double> log_sigmas);
// With the last one.
std::vector<float> with_last(const std::vector<double>& sigmas, double last);
// final_sigmas_type: 0, or `least`.
double last_sigma(const Config& config, double least);

// ---- samples

// thresholding, dynamic_thresholding_ratio and sample_max_value (Saharia et al., 2022), or clip_sample with
// clip_sample_range where the class has it.
class SampleBounds {
 public:
  enum class Clips { kByDefault, kIfAsked, kNever };
  SampleBounds(const Config& config, Clips clips, bool has_thresholding = true);
  void apply(std::span<float> sample, int64_t rows) const;
  bool thresholds() const { return thresholding_; }

 private:
  bool thresholding_, clips_;
  float ratio_, most_, range_;
};

// a x + b y, as two products and a sum.
std::vector<float> combined(float a, std::span<const float> x, float b, std::span<const float> y);
std::vector<float> normal_numbers(size_t count, const DenoisingStep& request);
void check_sample(std::span<const float> model_output, std::span<const float> sample, size_t index, size_t calls);

// ---- classes of scheduler.h

std::unique_ptr<Scheduler> make_ddpm(const Config& config);
std::unique_ptr<Scheduler> make_ddim(const Config& config);
std::unique_ptr<Scheduler> make_pndm(const Config& config);
std::unique_ptr<Scheduler> make_euler(const Config& config);
std::unique_ptr<Scheduler> make_euler_ancestral(const Config& config);
std::unique_ptr<Scheduler> make_heun(const Config& config);
std::unique_ptr<Scheduler> make_lms(const Config& config);
std::unique_ptr<Scheduler> make_k_dpm_2(const Config& config);
std::unique_ptr<Scheduler> make_k_dpm_2_ancestral(const Config& config);
std::unique_ptr<Scheduler> make_dpm_solver(const Config& config);
std::unique_ptr<Scheduler> make_unipc(const Config& config);
std::unique_ptr<Scheduler> make_lcm(const Config& config);
std::unique_ptr<Scheduler> make_flow_match_euler(const Config& config);
std::unique_ptr<Scheduler> make_edm_euler(const Config& config);

}  // namespace transom
