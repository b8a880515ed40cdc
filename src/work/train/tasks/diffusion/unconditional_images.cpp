// SPDX-License-Identifier: Apache-2.0
// train_unconditional of diffusers: denoising diffusion (Ho et al., 2020). Each picture gets noise of a timestep that
// is drawn for it, and the network learns to say which noise. What is saved is a model to train further, and beside it
// a DDPMPipeline that draws: model_index.json, unet/ and scheduler/. B batch, C channels.
#include <algorithm>
#include <cmath>
#include <memory>

#include "base/error.h"
#include "base/files/directories.h"
#include "base/files/files.h"
#include "base/json/json.h"
#include "base/threads/threads.h"
#include "files/config/config.h"
#include "inputs/data/tables/labelled_files.h"
#include "inputs/images/augment.h"
#include "models/diffusion/pipeline_files.h"
#include "models/diffusion/schedulers/scheduler.h"
#include "models/nn/losses/loss_divisors.h"
#include "models/records.h"
#include "transom/ops.h"
#include "work/train/arguments/task_defaults.h"
#include "work/train/step/objective.h"
#include "work/train/tasks/media/random_of_row.h"
#include "work/train/tasks/read_report.h"
#include "work/train/tasks/tasks.h"
#include "work/train/tasks/text/text_features.h"

namespace transom {
namespace {

constexpr const char *kPicture = "sample", *kTime = "timestep";  // what networks read
constexpr const char* kNoise = "noise";
constexpr const char* kPictureRows = "rows";
constexpr int64_t kLargestPicture = 4096;

// The mean square of what the network says of the noise and the noise.
class DenoisingObjective final : public Objective {
 public:
  Tensor loss(const LossPass& pass, const NamedTensors& inputs, NamedTensors*) const override {
    NamedTensors seen;
    for (const auto& [name, tensor] : inputs.items())
      if (name != kNoise) seen.set(name, tensor);
    const Tensor said = cast(pass.model.forward(seen, pass.context).at("sample"), DType::kFloat32);
    const Tensor& noise = inputs.at(kNoise);
    if (said.shape() != noise.shape())
      fail("the network gives {}, and the noise is {}", to_string(said.shape()), to_string(noise.shape()));
    const Tensor distance = said - noise;
    return mean_of_all(distance * distance, pass.context);
  }
};

struct NoisyPictures {
  std::vector<fs::path> files;
  std::vector<float> alphas;  // the product of 1 - beta up to each timestep
  int64_t channels = 3, height = 0, width = 0, seed = 0;
  bool flips = false;

  // From -1 to 1: [C, H, W].
  std::vector<float> pixels(const fs::path& file, Mt19937& random) const {
    Image image = filling_middle(read_image(file), height, width, Resampling::kBilinear);
    if (flips) image = random_flip(image, random);
    const auto places = static_cast<size_t>(height * width);
    std::vector<float> values;
    for (int64_t c = 0; c < channels; ++c)
      for (size_t i = 0; i < places; ++i) {
        const uint8_t* pixel = image.pixels.data() + 3 * i;
        values.push_back(static_cast<float>(channels == 1 ? grey_of(pixel) : pixel[c]) / 127.5f - 1);
      }
    return values;
  }

  void fill(Batch& batch, const std::vector<int64_t>& rows, uint64_t draw) const {
    const auto size = static_cast<size_t>(channels * height * width);
    FloatRows &sample = batch.arrays[kPicture], &noise = batch.arrays[kNoise];
    sample.shape = noise.shape = {static_cast<int64_t>(rows.size()), channels, height, width};
    sample.values.resize(rows.size() * size);
    noise.values.resize(rows.size() * size);
    std::vector<int64_t>& timesteps = batch.numbers[kTime];
    timesteps.resize(rows.size());
    parallel_for(rows.size(), [&](size_t i) {
      Mt19937 random = random_of_row(seed, draw, i);
      const std::vector<float> clean = pixels(files[static_cast<size_t>(rows[i])], random);
      const auto trained = static_cast<double>(alphas.size());
      const auto t = std::min(static_cast<size_t>(random.uniform64() * trained), alphas.size() - 1);
      timesteps[i] = static_cast<int64_t>(t);
      const std::span<float> drawn = std::span(noise.values).subspan(i * size, size);
      random.fill_normal(drawn);
      const float kept = std::sqrt(alphas[t]), added = std::sqrt(1 - alphas[t]);
      for (size_t k = 0; k < size; ++k) sample.values[i * size + k] = kept * clean[k] + added * drawn[k];
    });
  }
};

// A batch is its rows' numbers until the draw is known; evaluations have the same draw each time.
TrainingData noisy(std::shared_ptr<const NoisyPictures> pictures, bool trains) {
  TrainingData data;
  data.rows = static_cast<int64_t>(pictures->files.size());
  data.batch = [pictures, trains](const std::vector<int64_t>& rows) {
    Batch batch;
    if (trains) batch.numbers[kPictureRows] = rows;
    else pictures->fill(batch, rows, static_cast<uint64_t>(rows.empty() ? 0 : rows.front()));
    return batch;
  };
  if (!trains) return data;
  data.augment = [pictures](Batch& batch, uint64_t draw) {
    const std::vector<int64_t> rows = std::move(batch.numbers.at(kPictureRows));
    batch.numbers.erase(kPictureRows);
    pictures->fill(batch, rows, draw);
  };
  return data;
}

// And nothing else, so that it learns from pictures alone.
bool reads_picture_and_time(const Model& model) {
  const FamilyInputs& inputs = inputs_of(model);
  return inputs.size() == 2 && inputs[0].name == kPicture && inputs[1].name == kTime;
}

std::vector<fs::path> images_below(const std::string& directory) {
  std::vector<fs::path> files;
  for (fs::path& file : visible_files(directory))
    if (is_image_name(file)) files.push_back(std::move(file));
  if (files.empty()) fail("{}: expected pictures in it, found none", directory);
  return files;
}

Json usual_schedule() {
  return {{"_class_name", "DDPMScheduler"}, {"num_train_timesteps", 1000},
          {"beta_start", 0.0001},           {"beta_end", 0.02},
          {"beta_schedule", "linear"},      {"clip_sample", true},
          {"prediction_type", "epsilon"},   {"variance_type", "fixed_small"}};
}

// The network's files stand a second time in unet/, as links where the file system has them.
void write_drawing_pipeline(const fs::path& directory, const std::string& network, const std::string& schedule) {
  const fs::path unet = directory / "unet";
  make_directories(unet);
  make_directories(directory / "scheduler");
  write_file(unet / "config.json", read_file(directory / "config.json"));
  const fs::path weights = directory / "model.safetensors";
  if (!path_exists(weights)) fail("{}: expected the weights in one file", directory.string());
  std::error_code error;
  fs::remove(unet / kNetworkWeightsName, error);
  fs::create_hard_link(weights, unet / kNetworkWeightsName, error);
  if (error) write_file(unet / kNetworkWeightsName, read_file(weights));
  write_file(directory / "scheduler" / kSchedulerConfigName, schedule);
  const Json index{
      {"_class_name", "DDPMPipeline"}, {"unet", {"diffusers", network}}, {"scheduler", {"diffusers", "DDPMScheduler"}}};
  write_file(directory / kPipelineIndexName, dump_json(index, 2) + "\n");
}

}  // namespace

void unconditional_image_defaults(TrainArguments& arguments) {
  const TrainingArguments usual;
  TrainingArguments& training = arguments.training;
  set_default(arguments, "learning_rate", training.learning_rate, usual.learning_rate, 1e-4);
  set_default(arguments, "random_flip", arguments.script.random_flip, true, false);
}

void prepare_unconditional_images(const TrainArguments& arguments, const TaskFiles& /*files*/, TaskSetup& setup) {
  const ScriptArguments& script = arguments.script;
  if (!script.train_dir && !script.validation_dir)
    fail(ErrorKind::kUsage, "--train_dir: a folder of pictures is missing");
  const fs::path base = script.model_name_or_path;
  const bool of_pipeline = path_exists(base / kPipelineIndexName);
  setup.model = load_model(arguments, (of_pipeline ? base / "unet" : base).string(), load_options(arguments, ""));
  const Config& config = setup.model->config();
  NoisyPictures pictures;
  pictures.channels = config.get_int("in_channels", 3);
  const auto extents = config.get_pair("sample_size", 0);
  pictures.height = extents[0], pictures.width = extents[1];
  if (!reads_picture_and_time(*setup.model) || (pictures.channels != 1 && pictures.channels != 3))
    fail(ErrorKind::kUnsupported,
         "{}: expected a network that reads a picture of 1 channel or 3 and its timestep, found {} of {}",
         config.where(), setup.model->architecture(), pictures.channels);
  if (pictures.height < 1 || pictures.width < 1 || std::max(pictures.height, pictures.width) > kLargestPicture)
    fail("{}: sample_size: expected extents from 1 to {}, found {} x {}", config.where(), kLargestPicture,
         pictures.width, pictures.height);
  if (config.get_int("out_channels", 3) != pictures.channels || config.get_int("num_class_embeds", 0) > 0)
    fail(ErrorKind::kUnsupported, "{}: expected as many channels out as in, and no classes", config.where());
  std::string schedule = dump_json(usual_schedule(), 2) + "\n";
  if (of_pipeline) schedule = read_file(base / "scheduler" / kSchedulerConfigName);
  const auto scheduler = make_scheduler(Config::parse(schedule, "scheduler"), "ddpm");
  if (scheduler->prediction_type() != "epsilon")
    fail(ErrorKind::kUnsupported, "{}: prediction_type: expected epsilon, found {}", base.string(),
         scheduler->prediction_type());
  pictures.alphas.assign(scheduler->alphas_cumprod().begin(), scheduler->alphas_cumprod().end());
  pictures.seed = arguments.training.seed;
  std::vector<std::pair<int64_t, std::string>> counts;
  const auto made = [&](const std::string& directory, bool trains) {
    auto all = std::make_shared<NoisyPictures>(pictures);
    all->files = images_below(directory);
    all->flips = trains && script.random_flip;
    if (const auto limit = trains ? script.max_train_samples : script.max_eval_samples)
      all->files.resize(std::min(all->files.size(), static_cast<size_t>(std::max<int64_t>(*limit, 1))));
    counts.emplace_back(all->files.size(), trains ? "to train on" : "to evaluate");
    return noisy(std::move(all), trains);
  };
  if (script.train_dir) setup.train = made(*script.train_dir, true);
  if (script.validation_dir) setup.validation = made(*script.validation_dir, false);
  setup.reads = what_is_read(
      {fmt::format("images: files of {}", script.train_dir.value_or(script.validation_dir.value_or("")))}, counts);
  setup.objective = std::make_shared<DenoisingObjective>();
  setup.preprocess_outputs = [](const NamedTensors&) { return NamedTensors(); };
  setup.compute_metrics = [](const Predictions&) { return Metrics(); };
  setup.metric_names.emplace();
  setup.save_tokenizer = [network = setup.model->architecture(), schedule](const std::string& output) {
    write_drawing_pipeline(output, network, schedule);
  };
}

}  // namespace transom
