// SPDX-License-Identifier: Apache-2.0
// run_image_classification: pictures in one folder a class. For training a random part of each is resized and perhaps
// mirrored; for evaluation the middle of it is taken.
#include <algorithm>
#include <filesystem>

#include "base/error.h"
#include "base/files.h"
#include "base/mt19937.h"
#include "base/threads.h"
#include "data/image_folder.h"
#include "images/augment.h"
#include "images/image_processor.h"
#include "io/config.h"
#include "train/tasks.h"
#include "train/text_features.h"

namespace transom {
namespace {

namespace fs = std::filesystem;

// What the torchvision transforms of the example script resize with, whatever the model's processor takes.
constexpr Resampling kResampling = Resampling::kBilinear;

struct Pictures {
  std::vector<ImageFolder::File> files;
  ImageProcessor processor;
  std::array<int64_t, 2> size;  // height, width

  // The shortest edge fitted, and the middle of the rest.
  Image centred(const Image& image) const {
    const auto [height, width] = size;
    if (height != width) return resize(image, width, height, kResampling);
    const int64_t shorter = std::min(image.width, image.height);
    const auto fitted = [&](int64_t extent) { return std::max(height, extent * height / shorter); };
    const Image resized = resize(image, fitted(image.width), fitted(image.height), kResampling);
    return crop(resized, (resized.width - width) / 2, (resized.height - height) / 2, width, height);
  }

  // pixel_values of the rows, each made by change(image, place in the batch), on all threads.
  template <typename Change>
  void fill(Batch& batch, const std::vector<int64_t>& rows, const Change& change) const {
    const auto [height, width] = size;
    const auto plane = static_cast<size_t>(3 * height * width);
    FloatRows& pixels = batch.arrays["pixel_values"];
    pixels.shape = {static_cast<int64_t>(rows.size()), 3, height, width};
    pixels.values.resize(rows.size() * plane);
    parallel_for(rows.size(), [&](size_t i) {
      const Image image = change(read_image(files[static_cast<size_t>(rows[i])].path), i);
      const ImageProcessor::Pixels one = processor.normalized(image);
      std::copy(one.values.begin(), one.values.end(), pixels.values.begin() + static_cast<ptrdiff_t>(i * plane));
    });
  }
  std::vector<int64_t> labels_of(const std::vector<int64_t>& rows) const {
    std::vector<int64_t> labels;
    for (const int64_t row : rows) labels.push_back(files[static_cast<size_t>(row)].label);
    return labels;
  }
};

TrainingData for_evaluation(std::shared_ptr<const Pictures> pictures) {
  TrainingData data;
  data.rows = static_cast<int64_t>(pictures->files.size());
  data.batch = [pictures](const std::vector<int64_t>& rows) {
    Batch batch;
    batch.labels = pictures->labels_of(rows);
    pictures->fill(batch, rows, [&](const Image& image, size_t) { return pictures->centred(image); });
    return batch;
  };
  return data;
}

// A batch is its rows' numbers until the draw is known.
TrainingData for_training(std::shared_ptr<const Pictures> pictures, int64_t seed) {
  constexpr const char* kRows = "rows";
  TrainingData data;
  data.rows = static_cast<int64_t>(pictures->files.size());
  data.batch = [pictures](const std::vector<int64_t>& rows) {
    Batch batch;
    batch.labels = pictures->labels_of(rows);
    batch.numbers[kRows] = rows;
    return batch;
  };
  data.augment = [pictures, seed](Batch& batch, uint64_t draw) {
    const std::vector<int64_t> rows = std::move(batch.numbers.at(kRows));
    batch.numbers.erase(kRows);
    pictures->fill(batch, rows, [&](const Image& image, size_t place) {
      Mt19937 random((static_cast<uint64_t>(seed) * 0x9E3779B9u + draw) * 0x85EBCA6Bu + place);
      const auto [height, width] = pictures->size;
      return random_flip(random_resized_crop(image, height, width, kResampling, random), random);
    });
  };
  return data;
}

// Takes a part of the training files for validation, at random but the same for a seed.
std::vector<ImageFolder::File> split_off(std::vector<ImageFolder::File>& files, double part, int64_t seed) {
  std::vector<int64_t> order = Mt19937(static_cast<uint64_t>(seed)).randperm(static_cast<int64_t>(files.size()));
  const auto count = static_cast<size_t>(std::ceil(part * static_cast<double>(files.size())));
  std::vector<ImageFolder::File> taken, kept;
  for (size_t i = 0; i < order.size(); ++i) (i < count ? taken : kept).push_back(files[static_cast<size_t>(order[i])]);
  if (taken.empty() || kept.empty())
    fail("train_val_split {} of {} images leaves none for one of the two", part, files.size());
  files = std::move(kept);
  return taken;
}

void limit(std::vector<ImageFolder::File>& files, std::optional<int64_t> count, int64_t seed) {
  if (!count || *count >= static_cast<int64_t>(files.size())) return;
  // The first ones would be of one class.
  std::vector<ImageFolder::File> kept;
  const auto order = Mt19937(static_cast<uint64_t>(seed)).randperm(static_cast<int64_t>(files.size()));
  for (int64_t i = 0; i < *count; ++i) kept.push_back(files[static_cast<size_t>(order[static_cast<size_t>(i)])]);
  files = std::move(kept);
}

}  // namespace

void prepare_image_classification(const TrainArguments& arguments, TaskSetup& setup) {
  const ScriptArguments& script = arguments.script;
  const int64_t seed = arguments.training.seed;
  std::optional<ImageFolder> train, validation;
  if (script.train_dir) train = ImageFolder::open(*script.train_dir);
  if (script.validation_dir) validation = ImageFolder::open(*script.validation_dir);
  if (train && !validation && arguments.training.do_eval)
    validation = ImageFolder{train->classes, split_off(train->files, script.train_val_split, seed)};
  std::vector<std::string> classes = (train ? *train : *validation).classes;
  if (train && validation && validation->classes != classes)
    fail("{}: its classes are not those of {}", *script.validation_dir, *script.train_dir);

  // A checkpoint that was trained on the same classes keeps its order of them.
  const fs::path directory = script.model_name_or_path;
  LoadOptions options = load_options(arguments, "image-classification");
  std::vector<std::string> known;
  for (const auto& [id, name] : Config::read(directory / "config.json").get_map("id2label")) known.push_back(name);
  std::vector<std::string> sorted = known;
  std::sort(sorted.begin(), sorted.end());
  if (sorted == classes) {
    for (auto* folder : {&train, &validation})
      if (*folder)
        for (ImageFolder::File& file : (*folder)->files)
          file.label = std::find(known.begin(), known.end(), classes[static_cast<size_t>(file.label)]) - known.begin();
  } else {
    options.labels = classes;
  }
  setup.model = Model::from_pretrained(directory.string(), options);

  const ImageProcessor processor = ImageProcessor::from_pretrained(directory);
  const auto size = processor.training_size();
  if (train) {
    limit(train->files, script.max_train_samples, seed);
    setup.train = for_training(std::make_shared<Pictures>(Pictures{train->files, processor, size}), seed);
  }
  if (validation) {
    limit(validation->files, script.max_eval_samples, seed);
    setup.validation = for_evaluation(std::make_shared<Pictures>(Pictures{validation->files, processor, size}));
  }
  setup.save_tokenizer = [directory](const std::string& output) {
    const fs::path file = directory / "preprocessor_config.json";
    if (fs::exists(file)) write_file(fs::path(output) / "preprocessor_config.json", read_file(file));
  };
}

}  // namespace transom
