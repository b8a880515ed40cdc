// SPDX-License-Identifier: Apache-2.0
// DreamBooth (Ruiz et al., 2023), train_dreambooth of diffusers: a few pictures of one thing, whose name is a new word
// beside that of its class; pictures of the class beside them keep the class what it was.
#include <algorithm>

#include "base/error.h"
#include "base/files/directories.h"
#include "base/terminal/log.h"
#include "work/train/tasks/diffusion/latent_training.h"
#include "work/train/tasks/read_report.h"
#include "work/train/tasks/tasks.h"

namespace transom {
namespace {

void expect_prompts(const ScriptArguments& script) {
  if (!script.train_dir) fail(ErrorKind::kUsage, "--instance_data_dir: a folder of pictures is missing");
  if (script.train_file || script.validation_file || script.validation_dir || script.max_train_samples ||
      script.max_eval_samples)
    fail(
        ErrorKind::kUsage,
        "--train_file, --validation_file, --validation_dir, --max_train_samples, --max_eval_samples: dreambooth trains "
        "on all pictures of --instance_data_dir, and evaluates nothing; leave them out");
  if (!script.instance_prompt) fail(ErrorKind::kUsage, "--instance_prompt: the text of the pictures is missing");
  const bool class_given = script.class_data_dir || script.class_prompt;
  if (!script.with_prior_preservation && class_given)
    fail(ErrorKind::kUsage, "--class_data_dir, --class_prompt: have no effect without --with_prior_preservation");
  if (script.with_prior_preservation && (!script.class_data_dir || !script.class_prompt))
    fail(ErrorKind::kUsage, "--with_prior_preservation: needs --class_data_dir and --class_prompt");
}

std::vector<fs::path> class_pictures(const ScriptArguments& script) {
  std::vector<fs::path> files;
  if (directory_exists(*script.class_data_dir)) files = images_below(*script.class_data_dir);
  if (static_cast<int64_t>(files.size()) < script.num_class_images)
    fail(ErrorKind::kUsage,
         "--class_data_dir: expected {} pictures (--num_class_images), found {}: draw them with `transom run "
         "text-to-image --model {} --prompt {} --output {}/drawn.png`",
         script.num_class_images, files.size(), script.model_name_or_path, quoted(*script.class_prompt),
         *script.class_data_dir);
  files.resize(static_cast<size_t>(script.num_class_images));
  return files;
}

// How the scripts make parts of pictures of the instance.
void choose_parts(const FlowPipeline* flow, const ScriptArguments& script, PictureParts& parts) {
  parts.mirrors = flow && script.random_flip;
  if (script.random_flip && !flow)
    log(LogLevel::kInfo, "random_flip has no effect: the script of a U-Net mirrors no pictures");
  // Those of LoRA beside a U-Net and of the whole FLUX ask how pictures are resized.
  if (flow ? flow->packs && !script.use_peft : script.use_peft)
    parts.resampling = resampling_named(script.image_interpolation_mode);
  else if (script.image_interpolation_mode != ScriptArguments().image_interpolation_mode)
    log(LogLevel::kInfo, "image_interpolation_mode has no effect: the script resizes by bilinear");
}

}  // namespace

void dreambooth_defaults(TrainArguments& arguments) {
  latent_training_defaults(arguments,
                           {.learning_rate = arguments.script.use_peft ? 5e-4 : 5e-6, .rows = 4, .epochs = 1});
}

void prepare_dreambooth(const TrainArguments& arguments, const TaskFiles& /*files*/, TaskSetup& setup) {
  const ScriptArguments& script = arguments.script;
  expect_prompts(script);
  LatentTraining training(arguments, Resampling::kBilinear, setup);
  const auto pictures = training.pictures(true);
  choose_parts(training.flow(), script, pictures->parts);
  const size_t text = training.place_of(*script.instance_prompt);
  for (const fs::path& file : images_below(*script.train_dir))
    pictures->rows.push_back({.file = file, .texts = {text}});
  const auto instances = static_cast<int64_t>(pictures->rows.size()), repeats = script.repeats.value_or(1);
  pictures->count = instances * repeats;
  std::vector<std::pair<int64_t, std::string>> counts{{instances, "of the instance"}};
  int64_t others = 0;
  if (script.with_prior_preservation) {
    // Each half of a batch has a mean of its own, and the loss is their sum: a mean over both counts them by half.
    for (NoisyPictures::Row& row : pictures->rows) row.count.factor = 2;
    const size_t of_class = training.place_of(*script.class_prompt);
    const auto weight = static_cast<float>(script.prior_loss_weight);
    for (const fs::path& file : class_pictures(script))
      pictures->rows.push_back({.file = file, .texts = {of_class}, .count = {2 * weight, false}, .mirrors = false});
    others = static_cast<int64_t>(pictures->rows.size()) - instances;
    pictures->count = std::max(pictures->count, others);
    counts.emplace_back(others, "of the class");
  }
  if (others > 0 || repeats > 1)
    pictures->chosen = [instances, others, repeats](const std::vector<int64_t>& asked) {
      std::vector<int64_t> rows;
      for (const int64_t row : asked) rows.push_back(row % (instances * repeats) / repeats);
      for (const int64_t row : asked)
        if (others > 0) rows.push_back(instances + row % others);
      return rows;
    };
  setup.reads = what_is_read({fmt::format("images: files of {}", *script.train_dir)}, counts);
  training.add_data(pictures, true);
  training.finish();
}

}  // namespace transom
