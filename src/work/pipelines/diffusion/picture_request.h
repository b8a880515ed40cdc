// SPDX-License-Identifier: Apache-2.0
// What a run of a diffusion pipeline is asked for, and how the tasks say it: names and defaults of diffusers.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "inputs/images/image.h"
#include "models/diffusion/schedulers/scheduler.h"
#include "work/pipelines/parameters.h"

namespace transom {

// A file of LoRA and how much of it is added.
struct LoraFile {
  std::string path;
  double scale = 1;
  bool operator==(const LoraFile&) const = default;
};

// A file of learned words, and the token in place of its own.
struct WordFile {
  std::string path;
  std::optional<std::string> token = {};
  bool operator==(const WordFile&) const = default;
};

inline constexpr double kPictureGuidance = 1.5;

struct PictureRequest {
  std::string prompt;
  std::optional<std::string> negative_prompt;
  int64_t height = 0, width = 0, steps = 50, pictures = 1, clip_skip = 0;
  double guidance = 7.5, guidance_rescale = 0, eta = 0;
  std::optional<double> true_guidance;    // of FLUX: by a second pass, with the unwanted text
  std::optional<int64_t> most_tokens;     // that T5 reads
  std::vector<double> timesteps, sigmas;  // in place of the scheduler's own for so many steps
  std::string scheduler;                  // a class in place of the directory's; empty: that
  uint64_t seed = 0;
  // Of a run that begins with a picture.
  std::optional<Image> start, mask;  // white in the mask is drawn anew
  double strength = 0.8;
  double picture_guidance = kPictureGuidance;  // of InstructPix2Pix: how much the picture counts
  std::vector<LoraFile> loras;
  std::vector<WordFile> words;
  // Of a pipeline with a ControlNet: the picture that it sees, how much it counts, and from which part of the run to
  // which. Where it guesses, only the pass with the wanted text sees it.
  std::optional<Image> control;
  double control_scale = 1, control_start = 0, control_end = 1;
  bool guesses = false;
};

// What a class of diffusers takes where a run does not say.
struct PictureDefaults {
  int64_t steps = 50, height = 512, width = 512, unit = 8;  // unit: pixels that extents are multiples of
  double guidance = 7.5, strength = 0.8, control_scale = 1;
};

TaskParameters picture_parameters();          // of both tasks
TaskParameters changed_picture_parameters();  // of image-to-image
PictureRequest picture_request(const std::string& prompt, const TaskOptions& options, const PictureDefaults& defaults);
// Refuses numbers that no run can have, before any memory is taken. `unit`: pixels that extents are multiples of.
void check_request(const PictureRequest& request, int64_t unit);
// Sets the schedule of a run: of its steps, or what it asks for in their place, which is refused where the scheduler
// does not take it. Gives the number of steps.
int64_t set_schedule(Scheduler& scheduler, const PictureRequest& request, NoiseScheduleOptions options = {});
// Says in the log where the noise of `eta` is asked of a scheduler that takes none, as diffusers drops it.
void report_unused_eta(const Scheduler& scheduler, const PictureRequest& request);

}  // namespace transom
