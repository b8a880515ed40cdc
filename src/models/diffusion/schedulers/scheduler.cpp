// SPDX-License-Identifier: Apache-2.0
// The classes of schedulers, and from a configuration to one of them.
#include "models/diffusion/schedulers/scheduler.h"

#include <algorithm>

#include "base/error.h"
#include "base/json/json.h"
#include "base/terminal/log.h"
#include "files/config/config.h"
#include "models/diffusion/schedulers/schedule_parts.h"

namespace transom {
namespace {

struct SchedulerClass {
  std::string_view name, short_name;  // in diffusers; on a command line
  std::unique_ptr<Scheduler> (*make)(const Config& config);
  std::string_view fields;  // that it reads, with spaces around each
};

constexpr std::string_view kBetas = " num_train_timesteps beta_start beta_end beta_schedule trained_betas ";
constexpr std::string_view kSigmaFields =
    " prediction_type use_karras_sigmas use_exponential_sigmas use_beta_sigmas timestep_spacing steps_offset ";
constexpr SchedulerClass kSchedulers[] = {
    {"DDPMScheduler", "ddpm", make_ddpm,
     " variance_type clip_sample clip_sample_range prediction_type thresholding dynamic_thresholding_ratio "
     "sample_max_value timestep_spacing steps_offset rescale_betas_zero_snr "},
    {"DDIMScheduler", "ddim", make_ddim,
     " clip_sample clip_sample_range set_alpha_to_one steps_offset prediction_type thresholding "
     "dynamic_thresholding_ratio sample_max_value timestep_spacing rescale_betas_zero_snr "},
    {"PNDMScheduler", "pndm", make_pndm,
     " skip_prk_steps set_alpha_to_one prediction_type timestep_spacing steps_offset "},
    {"EulerDiscreteScheduler", "euler", make_euler,
     " prediction_type interpolation_type use_karras_sigmas use_exponential_sigmas use_beta_sigmas sigma_min sigma_max "
     "timestep_spacing timestep_type steps_offset rescale_betas_zero_snr final_sigmas_type "},
    {"EulerAncestralDiscreteScheduler", "euler_ancestral", make_euler_ancestral,
     " prediction_type timestep_spacing steps_offset rescale_betas_zero_snr "},
    {"HeunDiscreteScheduler", "heun", make_heun,
     " prediction_type use_karras_sigmas use_exponential_sigmas use_beta_sigmas clip_sample clip_sample_range "
     "timestep_spacing steps_offset sigma_min sigma_max "},
    {"LMSDiscreteScheduler", "lms", make_lms, kSigmaFields},
    {"KDPM2DiscreteScheduler", "k_dpm_2", make_k_dpm_2, kSigmaFields},
    {"KDPM2AncestralDiscreteScheduler", "k_dpm_2_ancestral", make_k_dpm_2_ancestral, kSigmaFields},
    {"DPMSolverMultistepScheduler", "dpm_solver", make_dpm_solver,
     " solver_order prediction_type thresholding dynamic_thresholding_ratio sample_max_value algorithm_type "
     "solver_type "
     "lower_order_final euler_at_final use_karras_sigmas use_exponential_sigmas use_beta_sigmas use_lu_lambdas "
     "use_flow_sigmas flow_shift final_sigmas_type lambda_min_clipped variance_type timestep_spacing steps_offset "
     "rescale_betas_zero_snr use_dynamic_shifting time_shift_type sigma_min sigma_max "},
    {"UniPCMultistepScheduler", "unipc", make_unipc,
     " solver_order prediction_type thresholding dynamic_thresholding_ratio sample_max_value predict_x0 solver_type "
     "lower_order_final disable_corrector solver_p use_karras_sigmas use_exponential_sigmas use_beta_sigmas "
     "use_flow_sigmas flow_shift timestep_spacing steps_offset final_sigmas_type rescale_betas_zero_snr "
     "use_dynamic_shifting time_shift_type sigma_min sigma_max shift_terminal "},
    // LCM has a timestep_spacing and a steps_offset too, which its own schedule does not look at.
    {"LCMScheduler", "lcm", make_lcm,
     " original_inference_steps clip_sample clip_sample_range set_alpha_to_one steps_offset prediction_type "
     "thresholding dynamic_thresholding_ratio sample_max_value timestep_spacing timestep_scaling "
     "rescale_betas_zero_snr "},
    // The base_ and max_ fields are read by the pipelines that know the size of a picture.
    {"FlowMatchEulerDiscreteScheduler", "flow_match_euler", make_flow_match_euler,
     " shift use_dynamic_shifting base_shift max_shift base_image_seq_len max_image_seq_len invert_sigmas "
     "shift_terminal use_karras_sigmas use_exponential_sigmas use_beta_sigmas time_shift_type stochastic_sampling "
     "sigma_min sigma_max "},
    {"EDMEulerScheduler", "edm_euler", make_edm_euler,
     " sigma_min sigma_max sigma_data sigma_schedule prediction_type rho final_sigmas_type "}};

const SchedulerClass* find_scheduler(std::string_view name) {
  for (const SchedulerClass& each : kSchedulers)
    if (each.name == name || each.short_name == name) return &each;
  return nullptr;
}

bool lists(std::string_view fields, const std::string& key) { return fields.find(" " + key + " ") != fields.npos; }

// Fields of other classes have no effect, in diffusers as well; what no class has is told.
void report_unknown(const Config& config) {
  std::vector<std::string> unknown;
  for (const std::string& key : config.keys()) {
    if (key.starts_with('_') || lists(kBetas, key)) continue;
    if (std::none_of(std::begin(kSchedulers), std::end(kSchedulers),
                     [&](const SchedulerClass& each) { return lists(each.fields, key); }))
      unknown.push_back(key);
  }
  if (!unknown.empty())
    log(LogLevel::kWarning,
        fmt::format("{}: no scheduler reads {}: without effect", config.where(), fmt::join(unknown, ", ")));
}

// None is no for diffusers, also where a class does it unless it is told otherwise.
Config with_plain_flags(const Config& given) {
  Config config = given;
  for (const char* flag : {"clip_sample", "set_alpha_to_one", "lower_order_final", "predict_x0"})
    if (const std::vector<std::string> keys = given.keys();
        !given.has(flag) && std::find(keys.begin(), keys.end(), flag) != keys.end())
      set_field(config, flag, false);
  return config;
}

// Fields that were defaults of the class that wrote the file are absent.
Config without_defaults(const Config& given) {
  Config config = given;
  for (const std::string& field : given.get_strings("_use_default_values")) set_field(config, field, nullptr);
  return config;
}

}  // namespace

void Scheduler::scale_input(std::span<float>, size_t) const {}

std::unique_ptr<Scheduler> make_scheduler(const Config& config, const std::string& class_name) {
  const std::string name = class_name.empty() ? config.get_string("_class_name") : scheduler_class(class_name);
  const SchedulerClass* found = find_scheduler(name);
  if (!found || name != found->name)
    fail(ErrorKind::kUnsupported, "{}: _class_name: unknown scheduler {} Known are: {}", config.where(), quoted(name),
         fmt::join(scheduler_names(), ", "));
  report_unknown(config);
  return found->make(without_defaults(with_plain_flags(config)));
}

std::vector<std::string> scheduler_names() {
  std::vector<std::string> names;
  for (const SchedulerClass& each : kSchedulers) names.emplace_back(each.name);
  return names;
}

std::string scheduler_class(std::string_view name) {
  if (const SchedulerClass* found = find_scheduler(name)) return std::string(found->name);
  std::vector<std::string> names;
  for (const SchedulerClass& each : kSchedulers) names.emplace_back(each.short_name);
  fail(ErrorKind::kUsage, "scheduler: expected one of {}, or a class of diffusers, found {}", fmt::join(names, ", "),
       quoted(name));
}

}  // namespace transom
