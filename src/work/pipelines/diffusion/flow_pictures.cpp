// SPDX-License-Identifier: Apache-2.0
#include "work/pipelines/diffusion/flow_pictures.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/numbers/mt19937.h"
#include "base/terminal/log.h"
#include "base/threads/interrupt.h"
#include "files/config/config.h"
#include "models/diffusion/latent_scale.h"
#include "runtime/tensor/evaluate.h"
#include "transom/ops.h"
#include "work/pipelines/diffusion/picture_pixels.h"

namespace transom {
namespace {

constexpr int64_t kMostFlowSampleSize = 1 << 12;

const FlowPipeline& pipeline_of(const PipelineDirectory& directory) {
  const FlowPipeline* found = find_flow_pipeline(directory.class_name());
  if (!found)
    fail(ErrorKind::kUnsupported, "{}: _class_name: expected {}, found {}", directory.where(),
         fmt::join(flow_pipeline_names(), " or "), quoted(directory.class_name(), 80));
  return *found;
}

// Maps [B, C, h, w] as rows of patches of 2 x 2 places [B, h w / 4, 4 C], or back.
std::vector<float> repacked(const std::vector<float>& values, const Shape& map, bool packs) {
  const int64_t B = map[0], C = map[1], h = map[2], w = map[3];
  std::vector<float> made(values.size());
  size_t packed = 0;
  for (int64_t b = 0; b < B; ++b)
    for (int64_t y = 0; y < h; y += 2)
      for (int64_t x = 0; x < w; x += 2)
        for (int64_t c = 0; c < C; ++c)
          for (int64_t place = 0; place < 4; ++place, ++packed) {
            const auto plain = static_cast<size_t>(((b * C + c) * h + y + place / 2) * w + x + place % 2);
            made[packs ? packed : plain] = values[packs ? plain : packed];
          }
  return made;
}

// How far a schedule is shifted, by the number of patches.
double shift_of(const Config& scheduler, int64_t patches) {
  const auto number = [&](const char* name, double otherwise) { return scheduler.get_float(name, otherwise); };
  const double base = number("base_image_seq_len", 256), most = number("max_image_seq_len", 4096),
               low = number("base_shift", 0.5), high = number("max_shift", 1.15);
  if (most == base) fail("{}: base_image_seq_len and max_image_seq_len are both {}", scheduler.where(), base);
  const double slope = (high - low) / (most - base);
  const double mu = static_cast<double>(patches) * slope + (low - slope * base);
  if (!std::isfinite(mu)) fail("{}: base_shift and max_shift give {}", scheduler.where(), mu);
  return mu;
}

}  // namespace

struct FlowPictures::Run final : PictureRun {
  Run(const FlowPictures& drawing, const PictureRequest& asked) : model(drawing), request(asked) {}
  bool finished() const override { return next >= scheduler->timesteps().size(); }
  std::vector<Question> questions() const override {
    return model.questions(*this, request, scheduler->timesteps()[next]);
  }
  const Latents& now() const override { return latents; }
  void answer(const std::vector<std::vector<float>>& said) override;

  const FlowPictures& model;
  const PictureRequest request;
  Mt19937 random;
  std::unique_ptr<Scheduler> scheduler;
  size_t next = 0;
  PromptEncoders::Prompt wanted, unwanted;  // of all pictures; the second empty without guidance
  Latents latents;
  Tensor picture_places, text_places;  // of FLUX
};

std::vector<std::string> FlowPictures::class_names() { return flow_pipeline_names(); }

FlowPictures::FlowPictures(const PipelineDirectory& directory, const LoadOptions& options)
    : pipeline_(pipeline_of(directory)),
      is_flux_(pipeline_.packs),
      scheduler_(directory.scheduler()),
      encoders_(directory, options, pipeline_.texts),
      transformer_(directory.load("transformer", std::string(pipeline_.network), options)),
      vae_(load_picture_decoder(directory, options)) {
  const Config& config = transformer_->config();
  const Config& vae = vae_->config();
  if (directory.has("image_encoder"))
    log(LogLevel::kInfo, fmt::format("{}: image_encoder has no effect without IP-Adapter", directory.where()));
  knows_guidance_ = is_flux_ && config.get_bool("guidance_embeds", false);
  text_width_ = config.get_int("joint_attention_dim", 4096);
  enlargement_ = enlargement_of(*vae_, directory.where());
  channels_ = flow_channels(pipeline_, config, vae, directory.where());
  patch_ = pipeline_.patch(config);
  scaling_ = vae.get_float("scaling_factor", 0.18215);
  shift_ = vae.get_float("shift_factor", 0);
  if (scaling_ == 0 || !std::isfinite(scaling_) || !std::isfinite(shift_))
    fail("{}: vae: scaling_factor and shift_factor: found {} and {}", directory.where(), scaling_, shift_);
  if (make_scheduler(scheduler_)->prediction_type() != "flow")
    fail(ErrorKind::kUnsupported, "{}: scheduler: expected FlowMatchEulerDiscreteScheduler, found {}",
         directory.where(), quoted(scheduler_.get_string("_class_name")));
}

PictureDefaults FlowPictures::defaults(bool, bool) const {
  PictureDefaults defaults;
  const int64_t sample =
      is_flux_ ? pipeline_.sample_size : transformer_->config().get_int("sample_size", pipeline_.sample_size);
  defaults.height = defaults.width = std::clamp<int64_t>(sample, 1, kMostFlowSampleSize) * enlargement_;
  defaults.steps = 28;
  defaults.guidance = is_flux_ ? 3.5 : 7;
  return defaults;
}

void FlowPictures::check(const PictureRequest& r) const {
  check_request(r, unit());
  if (r.start || r.mask)
    fail(ErrorKind::kUnsupported, "the pipeline draws by a text alone, and a picture to begin with is given");
  if (r.control) fail(ErrorKind::kUsage, "control_image: the pipeline has no ControlNet");
  if (r.guidance_rescale > 0) fail(ErrorKind::kUsage, "guidance_rescale has no effect on flows");
  if (is_flux_ && r.clip_skip > 0)
    fail(ErrorKind::kUsage, "clip_skip has no effect: FLUX reads the text as a whole by the last layer");
  if (!is_flux_ && r.true_guidance) fail(ErrorKind::kUsage, "true_cfg_scale has no effect: guidance_scale is it");
  if (is_flux_ && !knows_guidance_ && r.guidance != defaults(false, false).guidance)
    log(LogLevel::kWarning, fmt::format("guidance_scale = {} has no effect: the network does not know it", r.guidance));
  const double guidance = guidance_of(r);
  if (r.negative_prompt && !(guidance > 1))
    log(LogLevel::kWarning, fmt::format("negative_prompt has no effect with a {} of {}",
                                        is_flux_ ? "true_cfg_scale" : "guidance_scale", guidance));
  if (is_flux_ && guidance > 1 && !r.negative_prompt)
    fail(ErrorKind::kUsage, "true_cfg_scale has no effect without a negative_prompt");
}

std::unique_ptr<Scheduler> FlowPictures::schedule(const PictureRequest& r) const {
  std::unique_ptr<Scheduler> scheduler = make_scheduler(scheduler_, r.scheduler);
  if (scheduler->prediction_type() != "flow")
    fail(ErrorKind::kUsage, "scheduler: expected flow_match_euler, found {}", quoted(r.scheduler));
  NoiseScheduleOptions options{.mu = shift_of(scheduler_, r.height / unit() * (r.width / unit()))};
  for (int64_t i = 0; is_flux_ && i < r.steps; ++i) {  // from 1 to 1 / steps
    const auto n = static_cast<double>(r.steps);
    options.sigmas.push_back(r.steps == 1 ? 1 : 1 + static_cast<double>(i) * ((1 / n - 1) / (n - 1)));
  }
  set_schedule(*scheduler, r, std::move(options));
  return scheduler;
}

void FlowPictures::add_texts(Run& run, const PictureRequest& r) const {
  const int64_t tokens = r.most_tokens.value_or(pipeline_.most_tokens);
  const auto read = [&](const std::string& text, int64_t clip_skip) {
    const PromptEncoders::Prompt one = encoders_(text, clip_skip, tokens, text_width_);
    return PromptEncoders::Prompt{repeated_rows(one.states, r.pictures), repeated_rows(one.pooled, r.pictures)};
  };
  run.wanted = read(r.prompt, r.clip_skip);
  std::vector<Tensor> made{run.wanted.states, run.wanted.pooled};
  if (guidance_of(r) > 1) {
    run.unwanted = read(r.negative_prompt.value_or(""), 0);
    made.insert(made.end(), {run.unwanted.states, run.unwanted.pooled});
  }
  eval(made);  // once, and not in each step
  if (!is_flux_) return;
  run.picture_places = patch_places(r.height / unit(), r.width / unit());
  run.text_places = token_places(tokens);
}

PictureRun::Question FlowPictures::question(const Run& run, const Tensor& x, const PromptEncoders::Prompt& prompt,
                                            const PictureRequest& r, double timestep) const {
  const auto number = [](float value) { return Tensor::from(std::vector<float>{value}, {1}); };
  NamedTensors shared,
      inputs{{"hidden_states", x}, {"encoder_hidden_states", prompt.states}, {"pooled_projections", prompt.pooled}};
  const auto t = static_cast<float>(timestep);
  inputs.set("timestep", number(is_flux_ ? t / 1000 : t));
  if (is_flux_) {
    shared.set("img_ids", run.picture_places);
    shared.set("txt_ids", run.text_places);
  }
  if (knows_guidance_) inputs.set("guidance", number(static_cast<float>(r.guidance)));
  return {std::move(inputs), std::move(shared), x.dim(0)};
}

std::vector<PictureRun::Question> FlowPictures::questions(const Run& run, const PictureRequest& r,
                                                          double timestep) const {
  const Shape& map = run.latents.shape;
  const Shape rows{map[0], map[2] * map[3] / 4, map[1] * 4};
  const Tensor x =
      is_flux_ ? Tensor::from(repacked(run.latents.values, map, true), rows) : Tensor::from(run.latents.values, map);
  const Tensor seen = cast(x, transformer_->dtype());
  if (!run.unwanted.states.defined()) return {question(run, seen, run.wanted, r, timestep)};
  if (is_flux_) return {question(run, seen, run.wanted, r, timestep), question(run, seen, run.unwanted, r, timestep)};
  const PromptEncoders::Prompt both{concatenate({run.unwanted.states, run.wanted.states}, 0),
                                    concatenate({run.unwanted.pooled, run.wanted.pooled}, 0)};
  return {question(run, repeated_rows(seen, 2), both, r, timestep)};
}

void FlowPictures::Run::answer(const std::vector<std::vector<float>>& said) {
  std::vector<float> prediction = said.at(0), other;
  if (said.size() == 2) other = said[1];
  else if (unwanted.states.defined()) {
    const auto half = prediction.begin() + static_cast<ptrdiff_t>(prediction.size() / 2);
    other.assign(prediction.begin(), half);
    prediction.erase(prediction.begin(), half);
  }
  const auto scale = static_cast<float>(model.guidance_of(request));
  for (size_t i = 0; i < other.size(); ++i) prediction[i] = other[i] + scale * (prediction[i] - other[i]);
  if (model.is_flux_) prediction = repacked(prediction, latents.shape, false);
  DenoisingStep step{.rows = request.pictures, .channels = model.channels_};
  step.noise = [this](std::span<float> values) {
    random.fill_normal(values);
    if (!model.is_flux_) return;  // whose steps see rows of patches
    const std::vector<float> plain = repacked({values.begin(), values.end()}, latents.shape, false);
    std::copy(plain.begin(), plain.end(), values.begin());
  };
  latents.values = scheduler->step(next, prediction, latents.values, step);
  ++next;
}

std::unique_ptr<PictureRun> FlowPictures::begin(const PictureRequest& r) const {
  check(r);
  auto run = std::make_unique<Run>(*this, r);
  run->random.seed(r.seed);
  run->scheduler = schedule(r);
  report_unused_eta(*run->scheduler, r);
  add_texts(*run, r);
  run->latents.shape = {r.pictures, channels_, r.height / enlargement_, r.width / enlargement_};
  run->latents.values.resize(static_cast<size_t>(elements(run->latents.shape)));
  run->random.fill_normal(run->latents.values);
  return run;
}

std::vector<Picture> FlowPictures::pictures(const Latents& latents) const {
  const NoGradient inference;
  std::vector<float> scaled = latents.values;
  for (float& value : scaled) value = value / static_cast<float>(scaling_) + static_cast<float>(shift_);
  return decoded_pictures(*vae_, scaled, latents.shape);
}

void FlowPictures::use_files(const PictureRequest& request) const {
  // Files of kohya's call T5 the third encoder, wherever it stands, and the transformer a U-Net.
  files_.use(request, encoders_,
             {{"transformer", transformer_.get()},
              {"unet", transformer_.get()},
              {"text_encoder", encoders_.find("text_encoder")},
              {"text_encoder_2", encoders_.find("text_encoder_2")},
              {"text_encoder_3", encoders_.find(is_flux_ ? "text_encoder_2" : "text_encoder_3")}});
}

}  // namespace transom
