// SPDX-License-Identifier: Apache-2.0
#include "work/train/tasks/diffusion/latent_training.h"

#include <algorithm>

#include "base/error.h"
#include "base/files/directories.h"
#include "base/files/files.h"
#include "base/json/json.h"
#include "files/config/config.h"
#include "models/loading/weights/missing_weights.h"
#include "models/records.h"
#include "transom/distributed.h"
#include "transom/hub.h"
#include "work/train/arguments/task_defaults.h"
#include "work/train/tasks/diffusion/control_training.h"
#include "work/train/tasks/diffusion/flows/flow_noise.h"
#include "work/train/tasks/diffusion/flows/flow_objective.h"
#include "work/train/tasks/diffusion/flows/flow_training.h"
#include "work/train/tasks/diffusion/training_noise.h"
#include "work/train/tasks/text/text_features.h"

namespace transom {
namespace {

constexpr int64_t kLargestResolution = 8192;
constexpr const char *kUNetClass = "UNet2DConditionModel", *kAutoencoderClass = "AutoencoderKL";

bool is_of_xl(const PipelineDirectory& directory) {
  constexpr std::string_view kPlain = "StableDiffusionPipeline", kXl = "StableDiffusionXLPipeline";
  if (find_flow_pipeline(directory.class_name())) return false;
  if (directory.class_name() != kPlain && directory.class_name() != kXl)
    fail(ErrorKind::kUnsupported, "{}: _class_name: expected {}, {}, {} to train, found {}", directory.where(), kPlain,
         kXl, fmt::join(flow_pipeline_names(), ", "), quoted(directory.class_name(), 80));
  return directory.class_name() == kXl;
}

// The frozen parts are computed in float32: they only say what is trained on.
LoadOptions of_frozen_parts() { return {.dtype = "float32"}; }

}  // namespace

void latent_training_defaults(TrainArguments& arguments, const LatentDefaults& given) {
  const LatentDefaults own = flow_training_defaults(arguments, given);
  const TrainingArguments usual;
  const ScriptArguments of_script;
  TrainingArguments& training = arguments.training;
  ScriptArguments& script = arguments.script;
  set_default(arguments, "learning_rate", training.learning_rate, usual.learning_rate, own.learning_rate);
  set_default(arguments, "per_device_train_batch_size", training.per_device_train_batch_size,
              usual.per_device_train_batch_size, own.rows);
  set_default(arguments, "num_train_epochs", training.num_train_epochs, usual.num_train_epochs, own.epochs);
  set_default(arguments, "lr_scheduler_type", training.lr_scheduler_type, usual.lr_scheduler_type,
              std::string("constant"));
  if (training.lr_scheduler_type != "constant" && !training.warmup_ratio)
    set_default(arguments, "warmup_steps", training.warmup_steps, usual.warmup_steps, kWarmupOfScripts);
  set_default(arguments, "weight_decay", training.weight_decay, usual.weight_decay, own.weight_decay);
  set_default(arguments, "random_flip", script.random_flip, true, false);
  set_default(arguments, "lora_r", script.lora_r, of_script.lora_r, int64_t{4});
  set_default(arguments, "lora_alpha", script.lora_alpha, of_script.lora_alpha,
              own.lora_alpha.value_or(static_cast<double>(script.lora_r)));
  set_default(arguments, "lora_dropout", script.lora_dropout, of_script.lora_dropout, 0.0);
  if (!script.init_lora_weights) script.init_lora_weights = "gaussian";
  if (script.scale_lr)
    training.learning_rate *= static_cast<double>(training.gradient_accumulation_steps *
                                                  training.per_device_train_batch_size * process_count());
}

LatentTraining::LatentTraining(const TrainArguments& arguments, Resampling resampling, TaskSetup& setup, Trains trains)
    : arguments_(arguments),
      setup_(setup),
      trains_(trains),
      directory_(arguments.script.model_name_or_path),
      flow_(find_flow_pipeline(directory_.class_name())),
      xl_(is_of_xl(directory_)) {
  refuse_what_is_not_trained();
  load_networks();
  if (trains_ != Trains::kWord) read_texts();
  load_autoencoder();
  scale_ = LatentScale::of(*autoencoder_, xl_, directory_.where());
  if (flow_) scale_.shift = autoencoder_->config().get_float("shift_factor", 0);
  enlargement_ = enlargement_of(*autoencoder_, directory_.where());
  if (trains == Trains::kControlNet && !setup.model)
    setup.model = new_controlnet(*network_, enlargement_, load_options(arguments, ""));
  choose_extents(resampling);
  choose_noise();
}

std::string LatentTraining::network_class() const { return flow_ ? std::string(flow_->network) : kUNetClass; }

void LatentTraining::read_texts() {
  const auto kind = flow_ ? flow_->texts : xl_ ? PromptEncoders::Kind::kXl : PromptEncoders::Kind::kOne;
  auto encoders = std::make_shared<const PromptEncoders>(directory_, of_frozen_parts(), kind);
  if (!flow_) {
    states_ = std::make_shared<TextStates>(std::move(encoders));
    return;
  }
  const TextStates::Form form{.t5_tokens = arguments_.script.max_sequence_length.value_or(flow_->packs ? 512 : 77),
                              .t5_width = network().config().get_int("joint_attention_dim", 4096),
                              .pooled = "pooled_projections"};
  states_ = std::make_shared<TextStates>(std::move(encoders), form);
}

void LatentTraining::choose_noise() {
  const ScriptArguments& script = arguments_.script;
  if (!flow_) {
    noise_ = std::make_shared<TrainingNoise>(*make_scheduler(directory_.scheduler(), "ddpm"), script,
                                             std::initializer_list<std::string_view>{"epsilon", "v_prediction"},
                                             directory_.where());
    return;
  }
  const Config schedule = directory_.scheduler();
  if (make_scheduler(schedule)->prediction_type() != "flow")
    fail(ErrorKind::kUnsupported, "{}: scheduler: expected FlowMatchEulerDiscreteScheduler, found {}",
         directory_.where(), quoted(schedule.get_string("_class_name")));
  std::optional<double> guidance;
  if (flow_->packs && network().config().get_bool("guidance_embeds", false)) guidance = script.guidance_scale;
  noise_ = std::make_shared<FlowNoise>(schedule, script,
                                       script.weighting_scheme.value_or(flow_->packs ? "none" : "logit_normal"),
                                       flow_->packs, guidance);
}

void LatentTraining::load_autoencoder() {
  const std::optional<std::string>& given = arguments_.script.pretrained_vae_model_name_or_path;
  if (!given) {
    autoencoder_ = directory_.load("vae", kAutoencoderClass, of_frozen_parts());
    return;
  }
  autoencoder_folder_ = resolve_model(*given);
  if (!directory_exists(*autoencoder_folder_))
    fail(ErrorKind::kUsage, "--pretrained_vae_model_name_or_path: expected a folder with config.json, found {}",
         autoencoder_folder_->string());
  autoencoder_ = load_trained(autoencoder_folder_->string(), of_frozen_parts());
  if (autoencoder_->architecture() != kAutoencoderClass)
    fail(ErrorKind::kUsage, "--pretrained_vae_model_name_or_path: expected an {}, found {}", kAutoencoderClass,
         autoencoder_->architecture());
}

void LatentTraining::load_networks() {
  const ScriptArguments& script = arguments_.script;
  const LoadOptions trained = load_options(arguments_, "");
  if (trains_ == Trains::kNetwork) {
    setup_.model = load_model(arguments_, directory_.folder(part(), network_class()).string(), trained);
    return;
  }
  network_ = directory_.load("unet", kUNetClass, of_frozen_parts());
  if (trains_ == Trains::kWord) {
    setup_.model = load_model(arguments_, directory_.folder("text_encoder", "CLIPTextModel").string(), trained);
    return;
  }
  if (!script.controlnet_model_name_or_path) return;
  setup_.model = load_model(arguments_, *script.controlnet_model_name_or_path, trained);
  if (setup_.model->architecture() != kControlNetClass)
    fail(ErrorKind::kUsage, "--controlnet_model_name_or_path: expected a {}, found a {}", kControlNetClass,
         setup_.model->architecture());
}

void LatentTraining::choose_extents(Resampling resampling) {
  const ScriptArguments& script = arguments_.script;
  const Config& config = network().config();
  const auto channels = [&](const char* name) { return config.get_int(name, 4); };
  if (flow_) flow_channels(*flow_, config, autoencoder_->config(), directory_.where());
  else if (channels("in_channels") != scale_.channels || channels("out_channels") != scale_.channels)
    fail(ErrorKind::kUnsupported, "{}: unet: expected {} channels in and out, as latents have, found {} and {}",
         directory_.where(), scale_.channels, channels("in_channels"), channels("out_channels"));
  const int64_t usual = config.get_pair("sample_size", flow_ ? flow_->sample_size : 64)[0];
  if (usual < 1 || usual > kLargestResolution)
    fail("{}: {}: sample_size: expected 1 to {}, found {}", directory_.where(), part(), kLargestResolution, usual);
  parts_.height = parts_.width = script.resolution.value_or(usual * enlargement_);
  const int64_t unit = enlargement_ * (flow_ ? flow_->patch(config) : 1);
  if (unit < 1 || parts_.height % unit != 0 || parts_.height > kLargestResolution)
    fail(ErrorKind::kUsage, "--resolution: expected a multiple of {}, up to {}, found {}", unit, kLargestResolution,
         parts_.height);
  parts_.resampling = resampling;
  parts_.middle = script.center_crop || trains_ == Trains::kControlNet;
  parts_.mirrors_first = xl_ || flow_;
}

void LatentTraining::refuse_what_is_not_trained() const {
  const ScriptArguments& script = arguments_.script;
  expect_arguments_of(script, flow_, directory_.class_name());
  if (trains_ == Trains::kControlNet && (xl_ || flow_))
    fail(ErrorKind::kUnsupported, "{}: expected a StableDiffusionPipeline to train a ControlNet beside, found {}",
         directory_.where(), directory_.class_name());
  if (trains_ == Trains::kWord && (xl_ || flow_ || script.use_peft))
    fail(ErrorKind::kUnsupported,
         "{}: expected a StableDiffusionPipeline to learn a word for, without --use_peft, found {}", directory_.where(),
         directory_.class_name());
  if (!script.use_peft) return;
  if (trains_ == Trains::kControlNet)
    fail(ErrorKind::kUsage, "--use_peft: a ControlNet is trained whole; leave it out");
  if (script.peft_type != "LORA")
    fail(ErrorKind::kUnsupported, "--peft_type: files of diffusers hold LORA alone, found {}", script.peft_type);
  if (script.use_dora || script.lora_bias != "none" || !script.lora_modules_to_save.empty())
    fail(ErrorKind::kUnsupported,
         "--use_dora, --lora_bias, --lora_modules_to_save: files of diffusers hold the factors of LoRA alone");
}

std::shared_ptr<NoisyPictures> LatentTraining::pictures(bool trains) const {
  const ScriptArguments& script = arguments_.script;
  auto made = std::make_shared<NoisyPictures>(parts_, noise_);
  made->parts.mirrors = trains && script.random_flip;
  if (!trains) made->parts.middle = true;
  made->seed = arguments_.training.seed;
  made->autoencoder = autoencoder_;
  made->scale = scale_;
  made->enlargement = enlargement_;
  made->states = states_;
  if (trains && script.proportion_empty_prompts > 0) {
    made->empty_texts = script.proportion_empty_prompts;
    made->empty_text = states_->place_of("");
  }
  made->tells_extents = xl_;
  return made;
}

void LatentTraining::add_data(std::shared_ptr<NoisyPictures> pictures, bool trains) {
  if (pictures->count == 0) pictures->count = static_cast<int64_t>(pictures->rows.size());
  pictures->encode_ahead();
  (trains ? setup_.train : setup_.validation) = noisy_data(std::move(pictures), trains);
}

PipelineOutput LatentTraining::output(std::shared_ptr<const WeightAverage> average) const {
  const ScriptArguments& script = arguments_.script;
  const fs::path base = script.model_name_or_path;
  Config schedule = directory_.scheduler();
  // What is drawn with it must take for what the network says.
  if (script.prediction_type) set_field(schedule, "prediction_type", *script.prediction_type);
  PipelineOutput made{.part = part(),
                      .index = read_file(base / kPipelineIndexName),
                      .schedule = dump_json(json_of(schedule), 2) + "\n",
                      .base = base,
                      .average = std::move(average)};
  if (!autoencoder_folder_ && trains_ != Trains::kControlNet) return made;
  Json index = parse_json(made.index, directory_.where());
  if (autoencoder_folder_) {
    made.others["vae"] = *autoencoder_folder_;
    index["vae"] = {"diffusers", kAutoencoderClass};
  }
  if (trains_ == Trains::kControlNet) {
    index["_class_name"] = "StableDiffusionControlNetPipeline";
    made.part = find_family(setup_.model->config())->model_type;  // as diffusers calls the folder, too
    index[made.part] = {"diffusers", kControlNetClass};
  }
  made.index = dump_json(index, 2) + "\n";
  return made;
}

void LatentTraining::finish() {
  states_->close();
  const ScriptArguments& script = arguments_.script;
  std::shared_ptr<DenoisingObjective> objective;
  if (flow_) objective = std::make_shared<FlowObjective>(script, *flow_, !flow_->packs && script.precondition_outputs);
  else if (network_) objective = std::make_shared<ControlObjective>(noise_->prediction_type(), script, network_);
  else objective = std::make_shared<DenoisingObjective>(noise_->prediction_type(), script);
  std::shared_ptr<WeightAverage> average;
  if (script.use_ema) {
    if (script.use_peft) fail(ErrorKind::kUsage, "--use_ema: averages whole weights; leave it out with --use_peft");
    average = std::make_shared<WeightAverage>(*setup_.model, WeightAverage::Growth{.most = script.ema_max_decay});
    objective->average_by(average);
  }
  if (script.use_peft)
    finish(std::move(objective), [part = part(), by_peft = flow_ != nullptr](const std::string& directory) {
      write_lora(directory, part, by_peft);
    });
  else finish(std::move(objective), [made = output(average)](const std::string& directory) { made.write(directory); });
}

void LatentTraining::finish(std::shared_ptr<DenoisingObjective> objective,
                            std::function<void(const std::string&)> save) {
  objective->encode_by(autoencoder_, scale_);
  setup_.objective = std::move(objective);
  setup_.preprocess_outputs = [](const NamedTensors&) { return NamedTensors(); };
  setup_.compute_metrics = [](const Predictions&) { return Metrics(); };
  setup_.metric_names.emplace();
  setup_.save_tokenizer = std::move(save);
}

}  // namespace transom
