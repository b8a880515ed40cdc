// SPDX-License-Identifier: Apache-2.0
#include "work/pipelines/diffusion/stable_diffusion.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/json/json.h"
#include "base/terminal/log.h"
#include "base/threads/interrupt.h"
#include "files/config/config.h"
#include "models/diffusion/blocks/timestep_embedding.h"
#include "runtime/tensor/evaluate.h"
#include "work/pipelines/diffusion/picture_pixels.h"

namespace transom {
namespace {

constexpr int64_t kMostSampleSize = 1 << 16;
constexpr std::string_view kConsistencyScheduler = "LCMScheduler";
constexpr double kAestheticScore = 6, kUnwantedAestheticScore = 2.5;  // of the refiner

struct TextPipeline {
  std::string_view name;
  bool xl = false, of_consistency = false, controlled = false, instructed = false;
};
constexpr TextPipeline kTextPipelines[] = {
    {"StableDiffusionPipeline"},
    {"StableDiffusionImg2ImgPipeline"},
    {"StableDiffusionInpaintPipeline"},
    {"StableDiffusionXLPipeline", true},
    {"StableDiffusionXLImg2ImgPipeline", true},
    {"StableDiffusionXLInpaintPipeline", true},
    {"LatentConsistencyModelPipeline", false, true},
    {"LatentConsistencyModelImg2ImgPipeline", false, true},
    {"StableDiffusionControlNetPipeline", false, false, true},
    {"StableDiffusionControlNetImg2ImgPipeline", false, false, true},
    {"StableDiffusionControlNetInpaintPipeline", false, false, true},
    {"StableDiffusionXLControlNetPipeline", true, false, true},
    {"StableDiffusionXLControlNetImg2ImgPipeline", true, false, true},
    {"StableDiffusionXLControlNetInpaintPipeline", true, false, true},
    {"StableDiffusionInstructPix2PixPipeline", false, false, false, true},
};

const TextPipeline& text_pipeline(const PipelineDirectory& directory) {
  for (const TextPipeline& each : kTextPipelines)
    if (each.name == directory.class_name()) return each;
  fail(ErrorKind::kUnsupported, "{}: _class_name: expected one of {}, found {}", directory.where(),
       fmt::join(StableDiffusion::class_names(), ", "), quoted(directory.class_name(), 80));
}

// Stable Diffusion's pipelines set two fields of their scheduler, whatever the file says; those of XL do not. A class
// that is put in its place (diffusers' from_config) has them where the file itself says them, else its own defaults.
Config with_settings(Config config, bool in_place_of_another) {
  const Json defaults = json_of(config).value("_use_default_values", Json::array());
  const auto is_default = [&](const std::string& name) {
    return !config.has(name) ||
           (defaults.is_array() && std::find(defaults.begin(), defaults.end(), Json(name)) != defaults.end());
  };
  const bool offset = !in_place_of_another || !is_default("steps_offset"),
             clip = !in_place_of_another || !is_default("clip_sample");
  for (const Json& name : defaults.is_array() ? defaults : Json::array())
    if (name.is_string()) set_field(config, name.get<std::string>(), nullptr);
  set_field(config, "_use_default_values", nullptr);
  if (offset) set_field(config, "steps_offset", 1);
  if (clip) set_field(config, "clip_sample", false);
  return config;
}

// The deviation of all numbers of a picture, as torch's std.
float spread_of(std::span<const float> values) {
  double sum = 0, squares = 0;
  for (const float value : values) sum += value;
  const double mean = sum / static_cast<double>(values.size());
  for (const float value : values) squares += (value - mean) * (value - mean);
  return static_cast<float>(std::sqrt(squares / static_cast<double>(values.size() - 1)));
}

// Classifier-free guidance (Ho & Salimans, 2022) on a pass whose first half saw the unwanted text.
std::vector<float> guided_prediction(const std::vector<float>& all, const PictureRequest& r) {
  const size_t half = all.size() / 2;
  std::vector<float> result(half);
  const auto guidance = static_cast<float>(r.guidance);
  for (size_t i = 0; i < half; ++i) result[i] = all[i] + guidance * (all[half + i] - all[i]);
  if (r.guidance_rescale <= 0) return result;
  const auto share = static_cast<float>(r.guidance_rescale);  // Lin et al. (2023)
  const size_t width = half / static_cast<size_t>(r.pictures);
  for (size_t begin = 0; begin < half; begin += width) {
    const std::span<float> row = std::span(result).subspan(begin, width);
    const float factor = spread_of(std::span(all).subspan(half + begin, width)) / spread_of(row);
    for (float& value : row) value = share * (value * factor) + (1 - share) * value;
  }
  return result;
}

// The same on a pass whose first third saw neither the text nor the picture, and its second the picture alone (Brooks
// et al., 2023).
std::vector<float> guided_by_both(const std::vector<float>& all, const PictureRequest& r) {
  const size_t third = all.size() / 3;
  std::vector<float> result(third);
  const auto by_text = static_cast<float>(r.guidance), by_picture = static_cast<float>(r.picture_guidance);
  for (size_t i = 0; i < third; ++i) {
    const float neither = all[i], picture = all[third + i], text = all[2 * third + i];
    result[i] = neither + by_text * (text - picture) + by_picture * (picture - neither);
  }
  return result;
}

}  // namespace

struct StableDiffusion::Run final : PictureRun {
  Run(const StableDiffusion& drawing, const PictureRequest& asked) : model(drawing), request(asked) {}
  const StableDiffusion& model;
  const PictureRequest request;
  size_t next = 0;  // call of the network
  std::unique_ptr<Scheduler> scheduler;
  Mt19937 random;
  Tensor text, pooled, time_ids, guidance;  // of all rows of a pass
  bool guided = false;
  int64_t passes = 1;  // over each picture
  size_t first = 0;    // the first call of the model
  Latents latents;
  // Of inpainting: the mask [h, w], latents of the picture, the first noise; of U-Nets that see them, further channels.
  std::vector<float> mask, original, noise;
  Tensor seen;
  Tensor control;  // what the ControlNet sees

  bool finished() const override { return next >= scheduler->timesteps().size(); }
  std::vector<Question> questions() const override { return {model.question(*this, request, next)}; }
  const Latents& now() const override { return latents; }
  void answer(const std::vector<std::vector<float>>& said) override {
    const std::vector<float>& all = said.at(0);
    DenoisingStep step{.rows = request.pictures, .channels = model.scale_.channels, .eta = request.eta};
    step.noise = [this](std::span<float> values) { random.fill_normal(values); };
    const std::vector<float> prediction = passes == 3 ? guided_by_both(all, request)
                                          : guided    ? guided_prediction(all, request)
                                                      : all;
    latents.values = scheduler->step(next, prediction, latents.values, step);
    ++next;
    if (request.mask && !model.sees_masks()) keep_original();
  }

  // What is not masked is what the picture is at this call, or at the end.
  void keep_original() {
    const std::vector<float> kept =
        next < scheduler->timesteps().size() ? scheduler->add_noise(original, noise, next) : original;
    for (size_t i = 0; i < kept.size(); ++i) {
      const float open = mask[i % mask.size()];
      latents.values[i] = (1 - open) * kept[i] + open * latents.values[i];
    }
  }
};

std::vector<std::string> StableDiffusion::class_names() {
  std::vector<std::string> names;
  for (const TextPipeline& each : kTextPipelines) names.emplace_back(each.name);
  return names;
}

StableDiffusion::StableDiffusion(const PipelineDirectory& directory, const LoadOptions& options)
    : scheduler_(directory.scheduler()),
      other_scheduler_(scheduler_),
      xl_(text_pipeline(directory).xl),
      of_consistency_(text_pipeline(directory).of_consistency),
      instructed_(text_pipeline(directory).instructed),
      encoders_(directory, options, xl_ ? PromptEncoders::Kind::kXl : PromptEncoders::Kind::kOne) {
  unet_ = directory.load("unet", "UNet2DConditionModel", options);
  if (text_pipeline(directory).controlled) control_.emplace(directory, options);
  vae_ = load_picture_decoder(directory, options);
  if (!xl_ && !instructed_) {
    scheduler_ = with_settings(std::move(scheduler_), false);
    other_scheduler_ = with_settings(std::move(other_scheduler_), true);
  }
  make_scheduler(scheduler_);  // refuses what is wrong with it before the first run
  scores_aesthetics_ = xl_ && directory.config().get_bool("requires_aesthetics_score", false);
  zeros_without_negative_ = xl_ && directory.config().get_bool("force_zeros_for_empty_prompt", true);
  if (directory.has("safety_checker"))
    log(LogLevel::kInfo,
        fmt::format("{}: safety_checker is not run: pictures are returned as they are", directory.where()));
  if (directory.has("image_encoder"))
    log(LogLevel::kInfo, fmt::format("{}: image_encoder has no effect without IP-Adapter", directory.where()));
  read_latent_scale(directory);
  guidance_width_ = unet_->config().get_int("time_cond_proj_dim", 0);
  if (of_consistency_ && guidance_width_ < 1)
    fail("{}: unet: time_cond_proj_dim is missing, by which {} tells the U-Net of the guidance", directory.where(),
         directory.class_name());
}

void StableDiffusion::read_latent_scale(const PipelineDirectory& directory) {
  scale_ = LatentScale::of(*vae_, xl_, directory.where());
  input_channels_ = unet_->config().get_int("in_channels", 4);
  enlargement_ = enlargement_of(*vae_, directory.where());
  const int64_t given = unet_->config().get_int("out_channels", 4);
  const int64_t seen = instructed_ ? 2 * scale_.channels : scale_.channels;
  if (input_channels_ != seen && (instructed_ || input_channels_ != 2 * scale_.channels + 1))
    fail("{}: the U-Net reads {} channels and the autoencoder gives {}", directory.where(), input_channels_,
         scale_.channels);
  if (given != scale_.channels)
    fail("{}: the U-Net gives {} channels, and latents have {}", directory.where(), given, scale_.channels);
}

PictureDefaults StableDiffusion::defaults(bool starts, bool masked) const {
  PictureDefaults defaults{.unit = std::max<int64_t>(8, enlargement_)};
  const auto sample = unet_->config().get_pair("sample_size", 64);
  defaults.height = std::clamp<int64_t>(sample[0], 1, kMostSampleSize) * enlargement_;
  defaults.width = std::clamp<int64_t>(sample[1], 1, kMostSampleSize) * enlargement_;
  if (of_consistency_) defaults.steps = 4;
  if (instructed_) defaults.steps = 100;
  defaults.guidance = of_consistency_ ? 8.5 : xl_ && (control_ || !masked) ? 5 : 7.5;
  if (instructed_) defaults.strength = 1;
  else if (starts && masked) defaults.strength = xl_ ? 0.9999 : 1;
  else defaults.strength = xl_ && !control_ ? 0.3 : 0.8;
  if (starts) defaults.control_scale = !masked ? 0.8 : xl_ ? 1 : 0.5;
  return defaults;
}

bool StableDiffusion::is_guided(const PictureRequest& r) const {
  return r.guidance > 1 && guidance_width_ == 0 && (!instructed_ || r.picture_guidance >= 1);
}

void StableDiffusion::add_texts(Run& run, const PictureRequest& r) const {
  run.guided = is_guided(r);
  run.passes = !run.guided ? 1 : instructed_ ? 3 : 2;
  const int64_t n = r.pictures;
  const PromptEncoders::Prompt wanted = encoders_(r.prompt, r.clip_skip);
  run.text = repeated_rows(wanted.states, n);
  if (wanted.pooled.defined()) run.pooled = repeated_rows(wanted.pooled, n);
  if (run.guided) {
    PromptEncoders::Prompt unwanted;
    if (!r.negative_prompt && zeros_without_negative_) unwanted = {wanted.states * 0.0, wanted.pooled * 0.0};
    else unwanted = encoders_(r.negative_prompt.value_or(""), 0);
    run.text = concatenate({repeated_rows(unwanted.states, (run.passes - 1) * n), run.text}, 0);
    if (run.pooled.defined()) run.pooled = concatenate({repeated_rows(unwanted.pooled, n), run.pooled}, 0);
  }
  std::vector<Tensor> made{run.text};
  if (xl_) {
    const auto height = static_cast<float>(r.height), width = static_cast<float>(r.width);
    const auto ids = [&](double score) {  // original extents, crop, and extents or how beautiful it is
      std::vector<float> row{height, width, 0, 0};
      if (scores_aesthetics_) row.push_back(static_cast<float>(score));
      else row.insert(row.end(), {height, width});
      const auto count = static_cast<int64_t>(row.size());
      return repeated_rows(Tensor::from(std::move(row), {1, count}), n);
    };
    run.time_ids = ids(kAestheticScore);
    if (run.guided) run.time_ids = concatenate({ids(kUnwantedAestheticScore), run.time_ids}, 0);
    made.push_back(run.pooled);
    made.push_back(run.time_ids);
  }
  if (guidance_width_ > 0) {
    const Tensor scale =
        Tensor::from(std::vector<float>(static_cast<size_t>(n), static_cast<float>(r.guidance - 1) * 1000.0f), {n});
    run.guidance = cast(sinusoids(scale, guidance_width_, false, 1), unet_->dtype());
    made.push_back(run.guidance);
  }
  eval(made);  // once, and not in each step
}

void StableDiffusion::set_schedule(Run& run, const PictureRequest& r) const {
  run.scheduler = make_scheduler(r.scheduler.empty() ? scheduler_ : other_scheduler_, r.scheduler);
  const std::string name = scheduler_class(r.scheduler.empty() ? scheduler_.get_string("_class_name") : r.scheduler);
  if (of_consistency_ && name == kConsistencyScheduler)  // which knows where to begin
    return static_cast<void>(transom::set_schedule(*run.scheduler, r, {.strength = r.start ? r.strength : 1}));
  const int64_t steps = transom::set_schedule(*run.scheduler, r);
  if (!r.start) return;
  const auto used = std::min(static_cast<int64_t>(static_cast<double>(steps) * r.strength), steps);
  run.first = static_cast<size_t>((steps - used) * run.scheduler->order());
  if (used < 1 || run.first >= run.scheduler->timesteps().size())
    fail(ErrorKind::kUsage, "strength: {} of {} steps is none", r.strength, steps);
}

std::vector<float> StableDiffusion::encode(const std::vector<float>& pixels, const PictureRequest& r,
                                           Mt19937& random) const {
  const Tensor sample = cast(Tensor::from(pixels, {1, 3, r.height, r.width}), vae_->dtype());
  const NamedTensors moments = vae_->forward({{"sample", sample}});
  const Tensor mean = cast(moments.at("latent_mean"), DType::kFloat32),
               spread = cast(moments.at("latent_log_variance"), DType::kFloat32);
  eval({mean, spread});
  std::vector<float> one = mean.to_vector<float>(), noise(one.size()), all;
  const std::vector<float> logarithms = spread.to_vector<float>();
  random.fill_normal(noise);
  const size_t places = one.size() / static_cast<size_t>(scale_.channels);
  for (size_t i = 0; i < one.size(); ++i) {
    const float value = one[i] + std::exp(0.5f * logarithms[i]) * noise[i];
    one[i] = scale_.for_network(value, i / places);
  }
  for (int64_t i = 0; i < r.pictures; ++i) all.insert(all.end(), one.begin(), one.end());
  return all;
}

// The picture as it is beside the latents: in its own numbers, and of none of its noise.
void StableDiffusion::show_picture(Run& run, const PictureRequest& r, const std::vector<float>& pixels) const {
  const Tensor sample = cast(Tensor::from(pixels, {1, 3, r.height, r.width}), vae_->dtype());
  const Tensor mean = cast(vae_->forward({{"sample", sample}}).at("latent_mean"), DType::kFloat32);
  const Tensor seen = repeated_rows(mean, r.pictures);
  run.seen = cast(run.guided ? concatenate({seen * 0.0, seen, seen}, 0) : seen, unet_->dtype());
  eval({run.seen});
}

void StableDiffusion::start(Run& run, const PictureRequest& r) const {
  run.latents.shape = {r.pictures, scale_.channels, r.height / enlargement_, r.width / enlargement_};
  const bool from_noise = !r.start || instructed_ || (r.mask && r.strength == 1);
  std::vector<float> pixels;
  if (r.start) {
    pixels = signed_pixels(*r.start, r.height, r.width);
    if (instructed_) show_picture(run, r, pixels);
    else if (!from_noise || !sees_masks()) run.original = encode(pixels, r, run.random);
  }
  run.noise.resize(static_cast<size_t>(elements(run.latents.shape)));
  run.random.fill_normal(run.noise);
  if (from_noise) {
    run.latents.values = run.noise;
    for (float& value : run.latents.values) value *= run.scheduler->initial_deviation();
  } else run.latents.values = run.scheduler->add_noise(run.original, run.noise, run.first);
  if (r.mask) add_mask(run, r, std::move(pixels));
}

void StableDiffusion::add_mask(Run& run, const PictureRequest& r, std::vector<float> pixels) const {
  const std::vector<float> white = white_places(*r.mask, r.height, r.width);
  for (size_t i = 0; i < pixels.size(); ++i) pixels[i] *= 1 - white[i % white.size()];
  // Whether or not the U-Net sees it, diffusers draws its noise.
  const std::vector<float> rest = encode(pixels, r, run.random);
  const int64_t h = run.latents.shape[2], w = run.latents.shape[3];
  for (int64_t y = 0; y < h; ++y)
    for (int64_t x = 0; x < w; ++x)
      run.mask.push_back(white[static_cast<size_t>(y * enlargement_ * r.width + x * enlargement_)]);
  if (!sees_masks()) return;
  const Tensor mask = repeated_rows(Tensor::from(run.mask, {1, 1, h, w}), r.pictures);
  const Tensor seen = concatenate({mask, Tensor::from(rest, run.latents.shape)}, 1);
  run.seen = cast(repeated_rows(seen, run.passes), unet_->dtype());
}

PictureRun::Question StableDiffusion::question(const Run& run, const PictureRequest& r, size_t index) const {
  std::vector<float> sample = run.latents.values;
  run.scheduler->scale_input(sample, index);
  const Tensor x = repeated_rows(cast(Tensor::from(sample, run.latents.shape), unet_->dtype()), run.passes);
  const auto t = static_cast<float>(run.scheduler->timesteps()[index]);
  NamedTensors inputs{
      {"sample", x}, {"timestep", Tensor::from(std::vector<float>{t}, {1})}, {"encoder_hidden_states", run.text}};
  if (run.pooled.defined()) {
    inputs.set("text_embeds", run.pooled);
    inputs.set("time_ids", run.time_ids);
  }
  if (run.control.defined() &&
      PictureControl::acts(r, index - run.first, run.scheduler->timesteps().size() - run.first))
    control_->add_residuals(inputs, run.control, r, run.guided);
  if (run.seen.defined()) inputs.set("sample", concatenate({x, run.seen}, 1));
  if (run.guidance.defined()) inputs.set("timestep_cond", run.guidance);
  return {std::move(inputs), {}, run.passes * r.pictures};
}

void StableDiffusion::check_instructed(const PictureRequest& r) const {
  if (!instructed_ && r.picture_guidance != kPictureGuidance)
    fail(ErrorKind::kUsage, "image_guidance_scale: has no effect without a pipeline of InstructPix2Pix");
  if (!instructed_) return;
  if (!r.start) fail(ErrorKind::kUsage, "the pipeline changes a picture as a text says: use image-to-image");
  if (r.mask) fail(ErrorKind::kUnsupported, "mask_image: InstructPix2Pix has no inpainting");
  if (r.strength != 1) fail(ErrorKind::kUsage, "strength: has no effect on InstructPix2Pix: see image_guidance_scale");
  if (r.guidance_rescale > 0 || r.clip_skip > 0)
    fail(ErrorKind::kUnsupported, "guidance_rescale and clip_skip: InstructPix2Pix has none");
}

void StableDiffusion::check(const PictureRequest& r) const {
  check_instructed(r);
  check_request(r, r.start && !r.mask ? enlargement_ : std::max<int64_t>(8, enlargement_));
  if (sees_masks() && !(r.start && r.mask))
    fail(ErrorKind::kUsage, "the U-Net is one of inpainting: it needs a picture and a mask_image");
  if (scores_aesthetics_ && !r.start)
    fail(ErrorKind::kUsage, "the pipeline is a refiner: it begins with a picture, by image-to-image");
  if (of_consistency_ && r.mask)
    fail(ErrorKind::kUnsupported, "mask_image: models of latent consistency have no inpainting");
  if (of_consistency_ && r.negative_prompt)
    fail(ErrorKind::kUsage, "negative_prompt: models of latent consistency know their guidance: it has no effect");
  const std::string unguided = guidance_width_ > 0 ? "with a U-Net that knows its guidance"
                                                   : fmt::format("with a guidance_scale of {}", r.guidance);
  if (r.negative_prompt && !is_guided(r)) log(LogLevel::kWarning, "negative_prompt has no effect " + unguided);
  if (r.guidance_rescale > 0 && !is_guided(r)) log(LogLevel::kWarning, "guidance_rescale has no effect " + unguided);
  if (r.true_guidance || r.most_tokens)
    fail(ErrorKind::kUsage, "true_cfg_scale and max_sequence_length have no effect: the pipeline has no T5");
  if (control_ && !r.control)
    fail(ErrorKind::kUsage, "control_image is missing: the pipeline has a ControlNet, which sees a picture");
  if (r.control && !control_) fail(ErrorKind::kUsage, "control_image: the pipeline has no ControlNet");
}

std::unique_ptr<PictureRun> StableDiffusion::begin(const PictureRequest& r) const {
  check(r);
  auto run = std::make_unique<Run>(*this, r);
  run->random.seed(r.seed);
  set_schedule(*run, r);
  add_texts(*run, r);
  start(*run, r);
  if (control_) eval({run->control = control_->picture(r, run->guided)});
  report_unused_eta(*run->scheduler, r);
  run->next = run->first;
  return run;
}

std::vector<Picture> StableDiffusion::pictures(const Latents& latents) const {
  const NoGradient inference;
  std::vector<float> scaled = latents.values;
  const auto places = static_cast<size_t>(latents.shape[2] * latents.shape[3]);
  for (size_t i = 0; i < scaled.size(); ++i) {
    const size_t channel = i / places % static_cast<size_t>(scale_.channels);
    scaled[i] = scale_.for_decoder(scaled[i], channel);
  }
  return decoded_pictures(*vae_, scaled, latents.shape);
}

void StableDiffusion::use_files(const PictureRequest& request) const {
  files_.use(request, encoders_,
             {{"unet", unet_.get()},
              {"text_encoder", encoders_.find("text_encoder")},
              {"text_encoder_2", encoders_.find("text_encoder_2")}});
}

}  // namespace transom
