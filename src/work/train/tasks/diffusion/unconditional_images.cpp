// SPDX-License-Identifier: Apache-2.0
// train_unconditional of diffusers: denoising diffusion (Ho et al., 2020). Each picture gets noise of a timestep that
// is drawn for it, and the network learns to say which noise. What is saved is a model to train further, and beside it
// a DDPMPipeline that draws: model_index.json, unet/ and scheduler/. B batch, C channels.
#include <algorithm>
#include <memory>

#include "base/error.h"
#include "base/files/directories.h"
#include "base/files/files.h"
#include "base/json/json.h"
#include "files/config/config.h"
#include "files/original/pipeline_files.h"
#include "models/records.h"
#include "work/train/arguments/task_defaults.h"
#include "work/train/tasks/diffusion/denoising_objective.h"
#include "work/train/tasks/diffusion/latent_training.h"
#include "work/train/tasks/diffusion/noisy_pictures.h"
#include "work/train/tasks/diffusion/pipeline_output.h"
#include "work/train/tasks/diffusion/training_noise.h"
#include "work/train/tasks/read_report.h"
#include "work/train/tasks/tasks.h"
#include "work/train/tasks/text/text_features.h"

namespace transom {
namespace {

constexpr int64_t kLargestPicture = 4096;

// And nothing else, so that it learns from pictures alone.
bool reads_picture_and_time(const Model& model) {
  const FamilyInputs& inputs = inputs_of(model);
  return inputs.size() == 2 && inputs[0].name == "sample" && inputs[1].name == kTimestep;
}

Json new_schedule(const ScriptArguments& script) {
  return {{"_class_name", "DDPMScheduler"},
          {"num_train_timesteps", script.ddpm_num_steps},
          {"beta_start", 0.0001},
          {"beta_end", 0.02},
          {"beta_schedule", script.ddpm_beta_schedule},
          {"clip_sample", true},
          {"prediction_type", script.prediction_type.value_or("epsilon")},
          {"variance_type", "fixed_small"}};
}

// A schedule that is there is not made anew.
void expect_own_schedule(const Config& own, const TrainArguments& arguments) {
  const ScriptArguments usual, &script = arguments.script;
  const int64_t steps = own.get_int("num_train_timesteps", 1000);
  const std::string betas = own.get_string("beta_schedule", "linear");
  const auto expect = [&](const char* name, const auto& given, const auto& by_default, const auto& found) {
    const bool asked = arguments.given ? is_given(arguments, name) : given != by_default;
    if (!asked || given == found) return;
    fail(ErrorKind::kUsage,
         "--{} {}: {} has {}, with which the network was trained; leave it out, or give the folder unet as the model",
         name, given, own.where(), found);
  };
  expect("ddpm_num_steps", script.ddpm_num_steps, usual.ddpm_num_steps, steps);
  expect("ddpm_beta_schedule", script.ddpm_beta_schedule, usual.ddpm_beta_schedule, betas);
}

PictureParts parts_of(const Config& config, const Model& model, const ScriptArguments& script) {
  PictureParts parts;
  parts.channels = config.get_int("in_channels", 3);
  const auto extents = config.get_pair("sample_size", 0);
  parts.height = script.resolution.value_or(extents[0]);
  parts.width = script.resolution.value_or(extents[1]);
  parts.middle = script.center_crop;
  if (!reads_picture_and_time(model) || (parts.channels != 1 && parts.channels != 3))
    fail(ErrorKind::kUnsupported,
         "{}: expected a network that reads a picture of 1 channel or 3 and its timestep, found {} of {}",
         config.where(), model.architecture(), parts.channels);
  if (parts.height < 1 || parts.width < 1 || std::max(parts.height, parts.width) > kLargestPicture)
    fail("{}: sample_size: expected extents from 1 to {}, found {} x {}", config.where(), kLargestPicture, parts.width,
         parts.height);
  if (config.get_int("out_channels", 3) != parts.channels || config.get_int("num_class_embeds", 0) > 0)
    fail(ErrorKind::kUnsupported, "{}: expected as many channels out as in, and no classes", config.where());
  return parts;
}

}  // namespace

void unconditional_image_defaults(TrainArguments& arguments) {
  const TrainingArguments usual;
  TrainingArguments& training = arguments.training;
  set_default(arguments, "learning_rate", training.learning_rate, usual.learning_rate, 1e-4);
  set_default(arguments, "per_device_train_batch_size", training.per_device_train_batch_size,
              usual.per_device_train_batch_size, int64_t{16});
  set_default(arguments, "num_train_epochs", training.num_train_epochs, usual.num_train_epochs, 100.0);
  set_default(arguments, "lr_scheduler_type", training.lr_scheduler_type, usual.lr_scheduler_type,
              std::string("cosine"));
  if (training.lr_scheduler_type != "constant" && !training.warmup_ratio)
    set_default(arguments, "warmup_steps", training.warmup_steps, usual.warmup_steps, kWarmupOfScripts);
  set_default(arguments, "adam_beta1", training.adam_beta1, usual.adam_beta1, 0.95);
  set_default(arguments, "weight_decay", training.weight_decay, usual.weight_decay, 1e-6);
  set_default(arguments, "random_flip", arguments.script.random_flip, true, false);
}

void prepare_unconditional_images(const TrainArguments& arguments, const TaskFiles& /*files*/, TaskSetup& setup) {
  const ScriptArguments& script = arguments.script;
  if (!script.train_dir && !script.validation_dir)
    fail(ErrorKind::kUsage, "--train_dir: a folder of pictures is missing");
  const fs::path base = script.model_name_or_path;
  const bool of_pipeline = path_exists(base / kPipelineIndexName);
  setup.model = load_model(arguments, (of_pipeline ? base / "unet" : base).string(), load_options(arguments, ""));
  const PictureParts parts = parts_of(setup.model->config(), *setup.model, script);
  Config schedule = Config::parse(dump_json(new_schedule(script)), "scheduler");
  if (of_pipeline) {
    schedule = Config::read(base / "scheduler" / kSchedulerConfigName);
    expect_own_schedule(schedule, arguments);
  }
  if (script.prediction_type) set_field(schedule, "prediction_type", *script.prediction_type);
  const auto noise =
      std::make_shared<TrainingNoise>(*make_scheduler(schedule, "ddpm"), script,
                                      std::initializer_list<std::string_view>{"epsilon", "sample"}, base.string());
  std::vector<std::pair<int64_t, std::string>> counts;
  const auto made = [&](const std::string& directory, bool trains) {
    auto all = std::make_shared<NoisyPictures>(parts, noise);
    all->seed = arguments.training.seed;
    all->parts.mirrors = trains && script.random_flip;
    all->parts.middle = parts.middle || !trains;
    for (fs::path& file : images_below(directory)) all->rows.push_back({.file = std::move(file)});
    if (const auto limit = trains ? script.max_train_samples : script.max_eval_samples)
      all->rows.resize(std::min(all->rows.size(), static_cast<size_t>(std::max<int64_t>(*limit, 1))));
    all->count = static_cast<int64_t>(all->rows.size());
    counts.emplace_back(all->count, trains ? "to train on" : "to evaluate");
    return noisy_data(std::move(all), trains);
  };
  if (script.train_dir) setup.train = made(*script.train_dir, true);
  if (script.validation_dir) setup.validation = made(*script.validation_dir, false);
  setup.reads = what_is_read(
      {fmt::format("images: files of {}", script.train_dir.value_or(script.validation_dir.value_or("")))}, counts);
  auto objective = std::make_shared<DenoisingObjective>(noise->prediction_type(), script);
  std::shared_ptr<WeightAverage> average;
  if (script.use_ema)
    average = std::make_shared<WeightAverage>(
        *setup.model,
        WeightAverage::Growth{
            .most = script.ema_max_decay, .by_power = true, .gamma = script.ema_inv_gamma, .power = script.ema_power});
  objective->average_by(average);
  setup.objective = objective;
  setup.preprocess_outputs = [](const NamedTensors&) { return NamedTensors(); };
  setup.compute_metrics = [](const Predictions&) { return Metrics(); };
  setup.metric_names.emplace();
  const Json index{{"_class_name", "DDPMPipeline"},
                   {"unet", {"diffusers", setup.model->architecture()}},
                   {"scheduler", {"diffusers", "DDPMScheduler"}}};
  const PipelineOutput output{.part = "unet",
                              .index = dump_json(index, 2) + "\n",
                              .schedule = dump_json(json_of(schedule), 2) + "\n",
                              .base = {},
                              .average = average};
  setup.save_tokenizer = [output](const std::string& directory) { output.write(directory); };
}

}  // namespace transom
