// SPDX-License-Identifier: Apache-2.0
// run_image_classification: pictures in one folder a class, or named in a table. For training a random part of each is
// resized and perhaps mirrored; for evaluation the middle of it is taken.
#include <algorithm>
#include <filesystem>

#include "base/error.h"
#include "base/files/files.h"
#include "base/numbers/mt19937.h"
#include "base/threads/threads.h"
#include "inputs/images/augment.h"
#include "inputs/images/image_processor.h"
#include "work/train/metrics/metrics.h"
#include "work/train/setup/new_model.h"
#include "work/train/tasks/labelled_file_sets.h"
#include "work/train/tasks/media/random_of_row.h"
#include "work/train/tasks/tasks.h"
#include "work/train/tasks/text/text_features.h"

namespace transom {
namespace {

namespace fs = std::filesystem;

// What the torchvision transforms of the example script resize with, whatever the model's processor takes.
constexpr Resampling kResampling = Resampling::kBilinear;

struct Pictures {
  std::vector<LabelledFiles::File> files;
  ImageProcessor processor;
  std::array<int64_t, 2> size;  // height, width

  // The shortest edge fitted, and the middle of the rest; both edges where the processor has a height and a width.
  Image centred(const Image& image) const {
    const auto [height, width] = size;
    if (height != width || !processor.fits_shortest_edge()) return resize(image, width, height, kResampling);
    return filling_middle(image, height, width, kResampling);
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

TrainingData pictures_for_evaluation(std::shared_ptr<const Pictures> pictures) {
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
TrainingData pictures_for_training(std::shared_ptr<const Pictures> pictures, const TrainArguments& arguments) {
  constexpr const char* kRows = "rows";
  TrainingData data;
  data.rows = static_cast<int64_t>(pictures->files.size());
  data.batch = [pictures](const std::vector<int64_t>& rows) {
    Batch batch;
    batch.labels = pictures->labels_of(rows);
    batch.numbers[kRows] = rows;
    return batch;
  };
  data.augment = [pictures, seed = arguments.training.seed, area = arguments.script.random_crop_area,
                  flip = arguments.script.random_flip](Batch& batch, uint64_t draw) {
    const std::vector<int64_t> rows = std::move(batch.numbers.at(kRows));
    batch.numbers.erase(kRows);
    pictures->fill(batch, rows, [&](const Image& image, size_t place) {
      Mt19937 random = random_of_row(seed, draw, place);
      const auto [height, width] = pictures->size;
      const Image cut = random_resized_crop(image, height, width, kResampling, random, area);
      return flip ? random_flip(cut, random) : cut;
    });
  };
  return data;
}

}  // namespace

void prepare_image_classification(const TrainArguments& arguments, const TaskFiles& files, TaskSetup& setup) {
  const fs::path directory = arguments.script.model_name_or_path;
  const fs::path preprocessor = arguments.script.image_processor_name.value_or(directory.string());
  LabelledFileSets sets =
      labelled_file_sets(arguments, files, {is_image_name, "images", arguments.script.image_column_name});
  expect_metric(MetricKind::kClasses, arguments.script.metric_name);
  setup.metric_names = metric_names(MetricKind::kClasses, {}, arguments.script.metric_name);
  LoadOptions options = load_options(arguments, "image-classification");
  options.labels = sets.new_labels;
  setup.reads = sets.reads;
  setup.model = load_model(arguments, directory.string(), options);

  const ImageProcessor processor = ImageProcessor::from_pretrained(preprocessor);
  const auto size = processor.training_size();
  if (sets.train)
    setup.train =
        pictures_for_training(std::make_shared<Pictures>(Pictures{sets.train->files, processor, size}), arguments);
  if (sets.validation)
    setup.validation =
        pictures_for_evaluation(std::make_shared<Pictures>(Pictures{sets.validation->files, processor, size}));
  setup.save_tokenizer = [preprocessor](const std::string& output) { copy_preprocessor(preprocessor, output); };
}

}  // namespace transom
