// SPDX-License-Identifier: Apache-2.0
// run_mae and run_mim: pictures without labels, of which a model sees some patches and makes up the others. For
// training a random part of each picture is taken and perhaps mirrored; for evaluation the middle. A masked autoencoder
// (MAE) draws what is hidden itself; other models (SimMIM) are told it by the batch.
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
#include "work/train/tasks/media/hidden_blocks.h"
#include "work/train/tasks/media/random_of_row.h"
#include "work/train/tasks/model_classes.h"
#include "work/train/tasks/read_report.h"
#include "work/train/tasks/tasks.h"
#include "work/train/tasks/text/text_features.h"

namespace transom {
namespace {

namespace fs = std::filesystem;

constexpr double kBaseLearningRate = 1e-3, kRowsOfBaseRate = 256;
// Of run_mae, whose masks the model draws, and of run_mim.
struct ScriptDefaults {
  double least_area, mask_ratio;
  Resampling resampling;
};
constexpr ScriptDefaults kDrawnByModel{0.2, 0.75, Resampling::kBicubic}, kToldByBatch{0.67, 0.6, Resampling::kBilinear};

bool is_told(const ScriptArguments& script) { return class_for(script, kMaskedPictures); }

struct PlainPictures {
  std::vector<fs::path> files;
  ImageProcessor processor;
  std::array<int64_t, 2> size;  // height, width
  Resampling resampling;
  std::optional<HiddenBlocks> hidden;  // of models that are told what is

  // `change` makes a picture of this size and returns what draws the rest of its row.
  template <typename Change>
  void fill(Batch& batch, const std::vector<int64_t>& rows, const Change& change) const {
    const auto [height, width] = size;
    const auto plane = static_cast<size_t>(3 * height * width);
    FloatRows& pixels = batch.arrays["pixel_values"];
    pixels.shape = {static_cast<int64_t>(rows.size()), 3, height, width};
    pixels.values.resize(rows.size() * plane);
    const size_t patches = hidden ? static_cast<size_t>(hidden->patches()) : 0;
    if (hidden)
      batch.arrays["bool_masked_pos"] = {{std::ssize(rows), hidden->patches()},
                                         std::vector<float>(rows.size() * patches)};
    parallel_for(rows.size(), [&](size_t i) {
      Image image = read_image(files[static_cast<size_t>(rows[i])]);
      Mt19937 random = change(image, i);
      const ImageProcessor::Pixels one = processor.normalized(image);
      std::copy(one.values.begin(), one.values.end(), pixels.values.begin() + static_cast<ptrdiff_t>(i * plane));
      if (hidden) hidden->draw(random, batch.arrays.at("bool_masked_pos").values.data() + i * patches);
    });
  }
};

// The same patches of a picture are hidden in each evaluation.
TrainingData plain_pictures_to_evaluate(std::shared_ptr<const PlainPictures> pictures, int64_t seed) {
  TrainingData data;
  data.rows = static_cast<int64_t>(pictures->files.size());
  data.batch = [pictures, seed](const std::vector<int64_t>& rows) {
    Batch batch;
    pictures->fill(batch, rows, [&](Image& image, size_t place) {
      image = filling_middle(image, pictures->size[0], pictures->size[1], pictures->resampling);
      return random_of_row(seed, 0, static_cast<uint64_t>(rows[place]));
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
    pictures->fill(batch, rows, [&](Image& image, size_t place) {
      Mt19937 random = random_of_row(seed, draw, place);
      image = random_resized_crop(image, pictures->size[0], pictures->size[1], pictures->resampling, random, area);
      if (flip) image = random_flip(image, random);
      return random;
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

// Options of the script that the model is not for.
void refuse_of_the_other(const TrainArguments& arguments, bool told) {
  const std::vector<std::string_view> none = told ? std::vector<std::string_view>{"norm_pix_loss", "base_learning_rate"}
                                                  : std::vector<std::string_view>{"mask_patch_size"};
  for (const std::string_view name : none)
    if (arguments.given && is_given(arguments, name))
      fail(ErrorKind::kUsage, "--{}: is for models that {} what is hidden", name,
           told ? "draw themselves" : "are told");
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
  const bool told = is_told(arguments.script);
  const ScriptDefaults& script = told ? kToldByBatch : kDrawnByModel;
  set_default(arguments, "random_crop_area", arguments.script.random_crop_area, kLeastCropArea, script.least_area);
  set_default(arguments, "mask_ratio", arguments.script.mask_ratio, ScriptArguments().mask_ratio, script.mask_ratio);
  if (told) return;
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
  const bool told = is_told(script);
  refuse_of_the_other(arguments, told);
  const LoadOptions options = load_options(arguments, told ? kMaskedPictures : "pretraining");
  LoadReport report;
  setup.model = load_changed(directory.string(), told ? Json::object() : fields_of_masks(arguments), options, &report);
  expect_weights(arguments, *setup.model, report, directory.string(), options.task);
  const FamilyInputs& inputs = inputs_of(*setup.model);
  if (*head_of(*setup.model).task != HeadTask::kMaskedImage || inputs.size() != 1)
    fail(ErrorKind::kUnsupported, "{}: expected a model that makes up hidden parts of pictures, found {}",
         setup.model->config().where(), setup.model->architecture());
  const ImageProcessor processor = ImageProcessor::from_pretrained(preprocessor);
  const std::array<int64_t, 2> size = processor.training_size();
  std::optional<HiddenBlocks> hidden;
  if (told)
    hidden.emplace(size, setup.model->config().get_int("patch_size"), script.mask_patch_size, script.mask_ratio,
                   setup.model->config().where());
  const auto pictures = [&](std::vector<fs::path>& of_set) {
    return std::make_shared<const PlainPictures>(
        PlainPictures{std::move(of_set), processor, size, (told ? kToldByBatch : kDrawnByModel).resampling, hidden});
  };
  setup.reads = what_is_read({"images without labels"}, counts);
  if (!train.empty()) setup.train = plain_pictures_to_train(pictures(train), arguments);
  if (!validation.empty()) setup.validation = plain_pictures_to_evaluate(pictures(validation), arguments.training.seed);
  setup.objective = std::make_shared<PictureObjective>(arguments.training);
  setup.preprocess_outputs = [](const NamedTensors&) { return NamedTensors(); };
  setup.compute_metrics = [](const Predictions&) { return Metrics(); };
  setup.metric_names.emplace();
  setup.save_tokenizer = [preprocessor](const std::string& output) { copy_preprocessor(preprocessor, output); };
}

}  // namespace transom
