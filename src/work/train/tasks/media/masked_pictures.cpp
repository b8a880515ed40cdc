// SPDX-License-Identifier: Apache-2.0
// run_mae: pictures without labels, of which a model sees some patches and makes up the others. For training a random
// part of each picture is taken and perhaps mirrored; for evaluation the middle.
#include <algorithm>
#include <cmath>
#include <filesystem>

#include "base/error.h"
#include "base/json/json.h"
#include "base/numbers/mt19937.h"
#include "base/threads/threads.h"
#include "inputs/data/columns.h"
#include "inputs/data/tables/labelled_files.h"
#include "inputs/images/augment.h"
#include "inputs/images/image_processor.h"
#include "models/loading/load_changed.h"
#include "models/records.h"
#include "runtime/distributed/process_group.h"
#include "work/train/arguments/task_defaults.h"
#include "work/train/setup/new_model.h"
#include "work/train/step/model_loss.h"
#include "work/train/tasks/diffusion/noisy_pictures.h"
#include "work/train/tasks/media/random_of_row.h"
#include "work/train/tasks/read_report.h"
#include "work/train/tasks/tasks.h"
#include "work/train/tasks/text/text_features.h"

namespace transom {
namespace {

namespace fs = std::filesystem;

constexpr double kBaseLearningRate = 1e-3, kRowsOfBaseRate = 256, kLeastAreaOfScript = 0.2;

struct PlainPictures {
  std::vector<fs::path> files;
  ImageProcessor processor;
  std::array<int64_t, 2> size;  // height, width

  template <typename Change>
  void fill(Batch& batch, const std::vector<int64_t>& rows, const Change& change) const {
    const auto [height, width] = size;
    const auto plane = static_cast<size_t>(3 * height * width);
    FloatRows& pixels = batch.arrays["pixel_values"];
    pixels.shape = {static_cast<int64_t>(rows.size()), 3, height, width};
    pixels.values.resize(rows.size() * plane);
    parallel_for(rows.size(), [&](size_t i) {
      const Image image = change(read_image(files[static_cast<size_t>(rows[i])]), i);
      const ImageProcessor::Pixels one = processor.normalized(image);
      std::copy(one.values.begin(), one.values.end(), pixels.values.begin() + static_cast<ptrdiff_t>(i * plane));
    });
  }
};

TrainingData plain_pictures_to_evaluate(std::shared_ptr<const PlainPictures> pictures) {
  TrainingData data;
  data.rows = static_cast<int64_t>(pictures->files.size());
  data.batch = [pictures](const std::vector<int64_t>& rows) {
    Batch batch;
    pictures->fill(batch, rows, [&](const Image& image, size_t) {
      return filling_middle(image, pictures->size[0], pictures->size[1], Resampling::kBicubic);
    });
    return batch;
  };
  return data;
}

// A batch is its rows' numbers until the draw is known.
TrainingData plain_pictures_to_train(std::shared_ptr<const PlainPictures> pictures, const TrainArguments& arguments) {
  constexpr const char* kRows = "rows";
  TrainingData data;
  data.rows = static_cast<int64_t>(pictures->files.size());
  data.batch = [](const std::vector<int64_t>& rows) {
    Batch batch;
    batch.numbers[kRows] = rows;
    return batch;
  };
  data.augment = [pictures, seed = arguments.training.seed, area = arguments.script.random_crop_area,
                  flip = arguments.script.random_flip](Batch& batch, uint64_t draw) {
    const std::vector<int64_t> rows = std::move(batch.numbers.at(kRows));
    batch.numbers.erase(kRows);
    pictures->fill(batch, rows, [&](const Image& image, size_t place) {
      Mt19937 random = random_of_row(seed, draw, place);
      const Image cut =
          random_resized_crop(image, pictures->size[0], pictures->size[1], Resampling::kBicubic, random, area);
      return flip ? random_flip(cut, random) : cut;
    });
  };
  return data;
}

// The model's loss, which needs no labels.
class PictureObjective : public ModelLoss {
 public:
  using ModelLoss::ModelLoss;
  bool has_loss(const NamedTensors&) const override { return true; }
};

std::vector<fs::path> pictures_of(const std::optional<std::string>& directory, const std::optional<Dataset>& table,
                                  const ScriptArguments& script, std::optional<int64_t> limit) {
  std::vector<fs::path> files;
  if (directory) {
    files = images_below(*directory);
  } else if (table) {
    const size_t column = need_column(*table, script.image_column_name, "image_column_name");
    for (int64_t row = 0; row < table->size(); ++row) files.push_back(file_of(*table, row, column));
  }
  if (limit) files.resize(std::min(files.size(), static_cast<size_t>(std::max<int64_t>(*limit, 1))));
  return files;
}

// The first ones of a permutation of them, as the script's split takes them.
std::vector<fs::path> split_off_pictures(std::vector<fs::path>& files, double part, int64_t seed) {
  const auto count = static_cast<size_t>(std::ceil(part * static_cast<double>(files.size())));
  std::vector<fs::path> taken, kept;
  const auto order = Mt19937(static_cast<uint64_t>(seed)).randperm(std::ssize(files));
  for (size_t i = 0; i < order.size(); ++i) (i < count ? taken : kept).push_back(files[static_cast<size_t>(order[i])]);
  if (taken.empty() || kept.empty())
    fail("train_val_split {} of {} pictures leaves none for one of the two", part, files.size());
  files = std::move(kept);
  return taken;
}

// What the script puts into a checkpoint's configuration; nothing of a model that is only evaluated.
Json fields_of_masks(const TrainArguments& arguments) {
  if (!arguments.training.do_train) return Json::object();
  return {{"mask_ratio", arguments.script.mask_ratio}, {"norm_pix_loss", arguments.script.norm_pix_loss}};
}

}  // namespace

void masked_picture_defaults(TrainArguments& arguments) {
  const TrainingArguments usual;
  TrainingArguments& training = arguments.training;
  set_default(arguments, "random_crop_area", arguments.script.random_crop_area, kLeastCropArea, kLeastAreaOfScript);
  const bool asked =
      arguments.given ? is_given(arguments, "learning_rate") : training.learning_rate != usual.learning_rate;
  if (!arguments.script.base_learning_rate && asked) return;
  const auto rows = static_cast<double>(training.per_device_train_batch_size * training.gradient_accumulation_steps *
                                        process_count());
  training.learning_rate = arguments.script.base_learning_rate.value_or(kBaseLearningRate) * rows / kRowsOfBaseRate;
}

void prepare_masked_pictures(const TrainArguments& arguments, const TaskFiles& files, TaskSetup& setup) {
  const ScriptArguments& script = arguments.script;
  const fs::path directory = script.model_name_or_path;
  const fs::path preprocessor = script.image_processor_name.value_or(directory.string());
  if (arguments.training.label_smoothing_factor > 0)
    fail(ErrorKind::kUsage, "--label_smoothing_factor: not with pictures that have no labels");
  std::vector<fs::path> train = pictures_of(script.train_dir, files.train, script, script.max_train_samples),
                        validation =
                            pictures_of(script.validation_dir, files.validation, script, script.max_eval_samples);
  if (validation.empty() && arguments.training.do_eval)
    validation = split_off_pictures(train, script.train_val_split, arguments.training.seed);
  std::vector<std::pair<int64_t, std::string>> counts;
  if (!train.empty()) counts.emplace_back(std::ssize(train), "to train on");
  if (!validation.empty()) counts.emplace_back(std::ssize(validation), "to evaluate");
  const LoadOptions options = load_options(arguments, "pretraining");
  LoadReport report;
  setup.model = load_changed(directory.string(), fields_of_masks(arguments), options, &report);
  expect_weights(arguments, *setup.model, report, directory.string(), options.task);
  const FamilyInputs& inputs = inputs_of(*setup.model);
  if (*head_of(*setup.model).task != HeadTask::kMaskedImage || inputs.size() != 1)
    fail(ErrorKind::kUnsupported,
         "{}: expected a masked autoencoder of pictures, which says itself what is hidden, found {}",
         setup.model->config().where(), setup.model->architecture());
  const ImageProcessor processor = ImageProcessor::from_pretrained(preprocessor);
  const auto pictures = [&](std::vector<fs::path>& of_set) {
    return std::make_shared<const PlainPictures>(
        PlainPictures{std::move(of_set), processor, processor.training_size()});
  };
  setup.reads = what_is_read({"images without labels"}, counts);
  if (!train.empty()) setup.train = plain_pictures_to_train(pictures(train), arguments);
  if (!validation.empty()) setup.validation = plain_pictures_to_evaluate(pictures(validation));
  setup.objective = std::make_shared<PictureObjective>(arguments.training);
  setup.preprocess_outputs = [](const NamedTensors&) { return NamedTensors(); };
  setup.compute_metrics = [](const Predictions&) { return Metrics(); };
  setup.metric_names.emplace();
  setup.save_tokenizer = [preprocessor](const std::string& output) { copy_preprocessor(preprocessor, output); };
}

}  // namespace transom
