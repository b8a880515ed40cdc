// SPDX-License-Identifier: Apache-2.0
#include "work/pipelines/diffusion/picture_request.h"

#include <algorithm>
#include <cmath>
#include <random>

#include "base/error.h"
#include "base/terminal/log.h"
#include "models/diffusion/schedulers/scheduler.h"
#include "work/pipelines/images/image_model.h"

namespace transom {
namespace {

constexpr int64_t kLargestExtent = 16384, kMostPixelsDrawn = 4096 * 4096, kMostPictures = 64, kMostSteps = 1000;
constexpr size_t kMostLoras = 16, kMostWordFiles = 64;
constexpr double kMostGuidance = 1e4, kMostControlScale = 1000;

std::vector<LoraFile> loras_of(const TaskOptions& options) {
  std::vector<LoraFile> loras;
  for (std::string& path : texts_option(options, "lora").value_or(std::vector<std::string>{}))
    loras.push_back({.path = std::move(path)});
  if (loras.size() > kMostLoras)
    fail(ErrorKind::kUsage, "lora: expected at most {} files, found {}", kMostLoras, loras.size());
  std::vector<double> scales;
  if (const TaskOptions::Value* given = options.find("lora_scale")) {
    if (const auto* list = std::get_if<std::vector<double>>(given)) scales = *list;
    else if (const auto one = number_option(options, "lora_scale")) scales.assign(loras.size(), *one);
  }
  if (loras.empty() && is_given(options, "lora_scale"))
    fail(ErrorKind::kUsage, "lora_scale: has no effect without lora");
  if (scales.empty()) return loras;
  if (scales.size() != loras.size())
    fail(ErrorKind::kUsage, "lora_scale: expected one number for each of {} files, found {}", loras.size(),
         scales.size());
  for (size_t i = 0; i < loras.size(); ++i) {
    if (!(std::abs(scales[i]) <= 1000))
      fail(ErrorKind::kUsage, "lora_scale: expected a number from -1000 to 1000, found {}", scales[i]);
    loras[i].scale = scales[i];
  }
  return loras;
}

std::vector<double> numbers_of(const TaskOptions& options, const char* name) {
  const TaskOptions::Value* given = options.find(name);
  std::vector<double> numbers;
  if (!given || !is_given(options, name)) return numbers;
  if (const auto* list = std::get_if<std::vector<double>>(given)) numbers = *list;
  else if (const auto one = number_option(options, name)) numbers = {*one};
  if (numbers.empty() || static_cast<int64_t>(numbers.size()) > kMostSteps)
    fail(ErrorKind::kUsage, "{}: expected 1 to {} numbers, found {}", name, kMostSteps, numbers.size());
  return numbers;
}

std::vector<WordFile> words_of(const TaskOptions& options) {
  std::vector<WordFile> words;
  for (std::string& path : texts_option(options, "textual_inversion").value_or(std::vector<std::string>{}))
    words.push_back({.path = std::move(path)});
  if (words.size() > kMostWordFiles)
    fail(ErrorKind::kUsage, "textual_inversion: expected at most {} files, found {}", kMostWordFiles, words.size());
  const auto tokens = texts_option(options, "textual_inversion_token");
  if (!tokens) return words;
  if (words.empty()) fail(ErrorKind::kUsage, "textual_inversion_token: has no effect without textual_inversion");
  if (tokens->size() != words.size())
    fail(ErrorKind::kUsage, "textual_inversion_token: expected one for each of {} files, found {}", words.size(),
         tokens->size());
  for (size_t i = 0; i < words.size(); ++i) words[i].token = (*tokens)[i];
  return words;
}

void expect_within(const char* name, double value, double least, double most) {
  if (!(value >= least && value <= most))
    fail(ErrorKind::kUsage, "{}: expected {} to {}, found {}", name, least, most, value);
}

}  // namespace

TaskParameters picture_parameters() {
  using enum TaskParameter::Type;
  return {{"negative_prompt", kText, "what the picture is not to show"},
          {"num_inference_steps", kInteger, "steps from noise to the picture", "50; 4 of LCM"},
          {"timesteps", kNumbers, "in place of those of the scheduler (ddpm, euler, heun, dpm_solver, lcm)"},
          {"sigmas", kNumbers, "noise levels in place of those of the scheduler (euler, flow_match_euler)"},
          {"guidance_scale", kNumber, "how much the text counts; up to 1: without guidance", "7.5; 5 of XL"},
          {"guidance_rescale", kNumber, "from 0 to 1: keeps guidance from washing out the picture", "0"},
          {"seed", kInteger,
           "of the noise: the picture of torch.Generator().manual_seed(SEED) (default: another each time)"},
          {"scheduler", kText,
           "a class of diffusers, or ddpm, ddim, pndm, euler, euler_ancestral, heun, lms, k_dpm_2, k_dpm_2_ancestral, "
           "dpm_solver, unipc, lcm (default: "
           "the directory's)"},
          {"num_images_per_prompt", kInteger, "pictures of one text", "1"},
          {"clip_skip", kInteger, "layers at the end of the text encoder that are left out", "0"},
          {"eta", kNumber, "of ddim: from 0, no noise in the steps, to 1", "0"},
          {"height", kInteger, "pixels (default: what the model is made for)"},
          {"width", kInteger, "pixels (default: what the model is made for)"},
          {.name = "lora",
           .type = kTexts,
           .help = "files of LoRA, diffusers' or kohya's, or folders of them",
           .is_path = true},
          {"lora_scale", kNumbers, "how much of each is added", "1"},
          {.name = "textual_inversion",
           .type = kTexts,
           .help = "files of learned words, diffusers' or AUTOMATIC1111's, or folders of them",
           .is_path = true},
          {"textual_inversion_token", kTexts, "how each is called in the prompt (default: as its file says)"},
          {"true_cfg_scale", kNumber, "of FLUX: guidance by a second pass with the negative_prompt, above 1", "1"},
          {"max_sequence_length", kInteger, "tokens that T5 reads, up to 512", "512 of FLUX, 256 of SD 3"},
          {.name = "control_image",
           .type = kText,
           .help = "the picture that a ControlNet sees: edges, depths, a pose",
           .is_path = true},
          {"controlnet_conditioning_scale", kNumber, "how much the control_image counts",
           "1; 0.8 where a picture is changed, 0.5 with a mask"},
          {"guess_mode", kFlag, "the ControlNet is to guess without a text", "false"},
          {"control_guidance_start", kNumber, "the part of the run from which on the ControlNet acts", "0"},
          {"control_guidance_end", kNumber, "the part of the run up to which it acts", "1"}};
}

TaskParameters changed_picture_parameters() {
  using enum TaskParameter::Type;
  return {{"prompt", kText, "what the picture becomes"},
          {"strength", kNumber, "how much of the picture may change, above 0 and up to 1",
           "0.8, with a mask 1; of XL 0.3 and 0.9999"},
          {"image_guidance_scale", kNumber, "of InstructPix2Pix: how much the picture counts; from 1", "1.5"},
          {.name = "mask_image",
           .type = kText,
           .help = "a picture that is white where the other one is drawn anew",
           .is_path = true}};
}

PictureRequest picture_request(const std::string& prompt, const TaskOptions& options, const PictureDefaults& defaults) {
  PictureRequest request;
  request.prompt = prompt;
  if (is_given(options, "negative_prompt")) request.negative_prompt = text_option(options, "negative_prompt", "");
  request.height = int_option(options, "height", defaults.height);
  request.width = int_option(options, "width", defaults.width);
  request.steps = int_option(options, "num_inference_steps", defaults.steps);
  request.timesteps = numbers_of(options, "timesteps");
  request.sigmas = numbers_of(options, "sigmas");
  request.pictures = int_option(options, "num_images_per_prompt", 1);
  request.clip_skip = int_option(options, "clip_skip", 0);
  request.guidance = number_option(options, "guidance_scale").value_or(defaults.guidance);
  request.guidance_rescale = number_option(options, "guidance_rescale").value_or(0);
  request.eta = number_option(options, "eta").value_or(0);
  if (is_given(options, "true_cfg_scale")) request.true_guidance = number_option(options, "true_cfg_scale");
  if (is_given(options, "max_sequence_length")) request.most_tokens = int_option(options, "max_sequence_length", 0);
  request.strength = number_option(options, "strength").value_or(defaults.strength);
  request.picture_guidance = number_option(options, "image_guidance_scale").value_or(kPictureGuidance);
  request.scheduler = text_option(options, "scheduler", "");
  if (!request.scheduler.empty()) scheduler_class(request.scheduler);  // refuses unknown ones before anything else
  request.seed = is_given(options, "seed") ? static_cast<uint64_t>(int_option(options, "seed", 0))
                                           : static_cast<uint64_t>(std::random_device()());
  request.loras = loras_of(options);
  request.words = words_of(options);
  if (is_given(options, "control_image")) {
    request.control = image_of(text_option(options, "control_image", ""));
    // What is drawn is as large as the picture, unless somebody says otherwise.
    const auto fitted = [&](int64_t extent) { return std::max(defaults.unit, extent / defaults.unit * defaults.unit); };
    if (!is_given(options, "height")) request.height = fitted(request.control->height);
    if (!is_given(options, "width")) request.width = fitted(request.control->width);
  } else
    refuse_without_effect(
        options, {"controlnet_conditioning_scale", "guess_mode", "control_guidance_start", "control_guidance_end"},
        "without a control_image");
  request.control_scale = number_option(options, "controlnet_conditioning_scale").value_or(defaults.control_scale);
  request.control_start = number_option(options, "control_guidance_start").value_or(0);
  request.control_end = number_option(options, "control_guidance_end").value_or(1);
  request.guesses = flag_option(options, "guess_mode", false);
  return request;
}

int64_t set_schedule(Scheduler& scheduler, const PictureRequest& r, NoiseScheduleOptions options) {
  if (!r.timesteps.empty() && !r.sigmas.empty())
    fail(ErrorKind::kUsage, "expected one of timesteps and sigmas, found both");
  if (!r.timesteps.empty() && !scheduler.takes_timesteps())
    fail(ErrorKind::kUsage, "timesteps: the scheduler takes none; those of ddpm, euler, heun, dpm_solver and lcm do");
  if (!r.sigmas.empty() && !scheduler.takes_sigmas())
    fail(ErrorKind::kUsage, "sigmas: the scheduler takes none; those of euler and flow_match_euler do");
  options.timesteps = r.timesteps;
  if (!r.sigmas.empty()) options.sigmas = r.sigmas;
  if (r.timesteps.empty() && r.sigmas.empty()) {
    scheduler.set_timesteps(r.steps, options);
    return r.steps;
  }
  scheduler.set_timesteps(std::ssize(r.timesteps) + std::ssize(r.sigmas), options);
  return std::ssize(scheduler.timesteps());  // as diffusers counts them, those of Heun's second calls too
}

void report_unused_eta(const Scheduler& scheduler, const PictureRequest& r) {
  if (r.eta > 0 && !scheduler.takes_eta())
    log(LogLevel::kWarning, fmt::format("eta = {} has no effect: of the schedulers ddim alone takes it", r.eta));
}

void check_request(const PictureRequest& r, int64_t unit) {
  const auto expect = [](const char* name, int64_t value, int64_t least, int64_t most) {
    if (value < least || value > most)
      fail(ErrorKind::kUsage, "{}: expected {} to {}, found {}", name, least, most, value);
  };
  expect("height", r.height, 8, kLargestExtent);
  expect("width", r.width, 8, kLargestExtent);
  if (r.height * r.width > kMostPixelsDrawn)
    fail(ErrorKind::kUsage, "height and width: expected at most {} pixels, found {} x {}", kMostPixelsDrawn, r.width,
         r.height);
  expect("num_inference_steps", r.steps, 1, kMostSteps);
  expect("num_images_per_prompt", r.pictures, 1, kMostPictures);
  expect("clip_skip", r.clip_skip, 0, 100);
  if (r.height % unit != 0 || r.width % unit != 0)
    fail(ErrorKind::kUsage, "height and width: expected numbers that {} divides, found {} and {}", unit, r.height,
         r.width);
  expect_within("guidance_scale", r.guidance, -kMostGuidance, kMostGuidance);
  if (r.true_guidance) expect_within("true_cfg_scale", *r.true_guidance, 0, kMostGuidance);
  if (r.most_tokens) expect("max_sequence_length", *r.most_tokens, 1, 512);
  expect_within("image_guidance_scale", r.picture_guidance, 0, kMostGuidance);
  expect_within("guidance_rescale", r.guidance_rescale, 0, 1);
  expect_within("eta", r.eta, 0, 1);
  expect_within("controlnet_conditioning_scale", r.control_scale, -kMostControlScale, kMostControlScale);
  expect_within("control_guidance_end", r.control_end, 0, 1);
  if (!(r.control_start >= 0 && r.control_start < r.control_end))
    fail(ErrorKind::kUsage,
         "control_guidance_start: expected a number from 0, below control_guidance_end, {}, found {}", r.control_end,
         r.control_start);
  if (r.start && !(r.strength > 0 && r.strength <= 1))
    fail(ErrorKind::kUsage, "strength: expected a number above 0, up to 1, found {}", r.strength);
}

}  // namespace transom
