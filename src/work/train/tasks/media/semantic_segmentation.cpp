// SPDX-License-Identifier: Apache-2.0
// run_semantic_segmentation: pictures, and beside each a gray one whose levels are the classes of its pixels. For
// training a random part of each is cut out and perhaps mirrored; for evaluation the whole is resized.
#include <algorithm>
#include <filesystem>

#include "base/error.h"
#include "base/files/directories.h"
#include "base/numbers/mt19937.h"
#include "base/threads/threads.h"
#include "files/config/model_config.h"
#include "inputs/data/columns.h"
#include "inputs/data/tables/labelled_files.h"
#include "inputs/images/augment.h"
#include "inputs/images/image_processor.h"
#include "models/family.h"
#include "models/nn/vision/upsampling.h"
#include "models/records.h"
#include "transom/ops.h"
#include "work/train/metrics/segmentation_metrics.h"
#include "work/train/setup/new_model.h"
#include "work/train/step/model_loss.h"
#include "work/train/tasks/media/random_of_row.h"
#include "work/train/tasks/read_report.h"
#include "work/train/tasks/tasks.h"
#include "work/train/tasks/text/text_features.h"

namespace transom {
namespace {

namespace fs = std::filesystem;

constexpr uint8_t kNoClass = 255;  // of padding, and of pixels that nobody labelled

// A picture and its classes, as a picture of three equal channels.
struct Scene {
  Image picture, classes;
};

Image class_map(const fs::path& path) {
  Image map = read_image(path);
  for (size_t i = 0; i < map.pixels.size(); i += 3)
    if (map.pixels[i] != map.pixels[i + 1] || map.pixels[i] != map.pixels[i + 2])
      fail("{}: expected a gray picture whose levels are classes, found colours", path.string());
  return map;
}

// In the middle of a white one of at least these extents.
Image padded(const Image& image, int64_t height, int64_t width) {
  if (image.height >= height && image.width >= width) return image;
  Image larger(std::max(width, image.width), std::max(height, image.height));
  std::fill(larger.pixels.begin(), larger.pixels.end(), kNoClass);
  const int64_t left = (larger.width - image.width) / 2, top = (larger.height - image.height) / 2;
  for (int64_t y = 0; y < image.height; ++y) std::copy_n(image.row(y), 3 * image.width, larger.row(top + y) + 3 * left);
  return larger;
}

struct Scenes {
  std::vector<fs::path> pictures, maps;
  ImageProcessor processor;
  std::array<int64_t, 2> size;  // height, width
  bool reduces = false;         // level 0 is no class, and class c is level c + 1
  int64_t ignored = kNoClass;

  Scene read(int64_t row) const {
    const auto i = static_cast<size_t>(row);
    Scene scene{read_image(pictures[i]), class_map(maps[i])};
    if (scene.picture.width != scene.classes.width || scene.picture.height != scene.classes.height)
      fail("{}: expected the extents of {}, {} x {}, found {} x {}", maps[i].string(), pictures[i].string(),
           scene.picture.width, scene.picture.height, scene.classes.width, scene.classes.height);
    return scene;
  }
  int64_t class_of(uint8_t level) const {
    if (level == kNoClass || (reduces && level == 0)) return ignored;
    return reduces ? level - 1 : level;
  }

  Scene whole(Scene scene) const {
    const auto [height, width] = size;
    return {resize(scene.picture, width, height, Resampling::kBilinear),
            resize(scene.classes, width, height, Resampling::kNearest)};
  }
  Scene random_part(const Scene& scene, bool mirrors, Mt19937& random) const {
    const auto [height, width] = size;
    Scene part{padded(scene.picture, height, width), padded(scene.classes, height, width)};
    const int64_t top = random.randint(part.picture.height - height + 1),
                  left = random.randint(part.picture.width - width + 1);
    part = {crop(part.picture, left, top, width, height), crop(part.classes, left, top, width, height)};
    return mirrors && random.randint(2) == 1 ? Scene{flipped(part.picture), flipped(part.classes)} : part;
  }

  // pixel_values and labels of the rows, each made by change(scene, place in the batch), on all threads.
  template <typename Change>
  void fill(Batch& batch, const std::vector<int64_t>& rows, const Change& change) const {
    const auto [height, width] = size;
    const auto plane = static_cast<size_t>(height * width), count = rows.size();
    FloatRows &pixels = batch.arrays["pixel_values"], &labels = batch.arrays["labels"];
    pixels = {{static_cast<int64_t>(count), 3, height, width}, std::vector<float>(3 * plane * count)};
    labels = {{static_cast<int64_t>(count), height, width}, std::vector<float>(plane * count)};
    parallel_for(count, [&](size_t i) {
      const Scene scene = change(read(rows[i]), i);
      const ImageProcessor::Pixels one = processor.normalized(scene.picture);
      std::copy(one.values.begin(), one.values.end(), pixels.values.begin() + static_cast<ptrdiff_t>(3 * i * plane));
      for (size_t p = 0; p < plane; ++p)
        labels.values[i * plane + p] = static_cast<float>(class_of(scene.classes.pixels[3 * p]));
    });
  }
};

TrainingData scenes_for_evaluation(std::shared_ptr<const Scenes> scenes) {
  TrainingData data;
  data.rows = static_cast<int64_t>(scenes->pictures.size());
  data.batch = [scenes](const std::vector<int64_t>& rows) {
    Batch batch;
    scenes->fill(batch, rows, [&](Scene scene, size_t) { return scenes->whole(std::move(scene)); });
    return batch;
  };
  return data;
}

// A batch is its rows' numbers until the draw is known.
TrainingData scenes_for_training(std::shared_ptr<const Scenes> scenes, const TrainArguments& arguments) {
  constexpr const char* kRows = "rows";
  TrainingData data;
  data.rows = static_cast<int64_t>(scenes->pictures.size());
  data.batch = [](const std::vector<int64_t>& rows) {
    Batch batch;
    batch.numbers[kRows] = rows;
    return batch;
  };
  data.augment = [scenes, seed = arguments.training.seed, flip = arguments.script.random_flip](Batch& batch,
                                                                                               uint64_t draw) {
    const std::vector<int64_t> rows = std::move(batch.numbers.at(kRows));
    batch.numbers.erase(kRows);
    scenes->fill(batch, rows, [&](const Scene& scene, size_t place) {
      Mt19937 random = random_of_row(seed, draw, place);
      return scenes->random_part(scene, flip, random);
    });
  };
  return data;
}

// The model's loss; evaluations are given the labels beside what the model says.
class PixelObjective : public ModelLoss {
 public:
  using ModelLoss::ModelLoss;
  Tensor loss(const LossPass& pass, const NamedTensors& inputs, NamedTensors* outputs) const override {
    const Tensor loss = ModelLoss::loss(pass, inputs, outputs);
    if (outputs) outputs->set("labels", inputs.at("labels"));
    return loss;
  }
};

// How many pixels of each class [B, C C], by the label and by what the model says.
NamedTensors confusion_of(const NamedTensors& outputs, int64_t ignored) {
  const Tensor labels = outputs.find("labels"), &logits = outputs.at("logits");
  if (!labels.defined()) return {};
  const int64_t B = logits.dim(0), C = logits.dim(1), cells = C * C + 1;  // the last one: pixels that do not count
  const Tensor large = resize_bilinear(cast(logits, DType::kFloat32), labels.dim(1), labels.dim(2), false, Computing{});
  const Tensor ids = cast(labels, DType::kInt64), found = arg_max(large, 1);
  const auto level = [&](int64_t value) { return full(ids.shape(), static_cast<double>(value), DType::kInt64); };
  const Tensor counts = logical_and(not_equal(ids, level(ignored)), less(ids, level(C)));
  const Tensor cell = select(counts, ids * static_cast<double>(C) + found, level(C * C)) +
                      iota(ids.shape(), 0) * static_cast<double>(cells);
  const Tensor sums = scatter_add(zeros({B * cells}), reshape(cell, {ids.size()}), full({ids.size()}, 1), 0);
  return {{"confusion", slice(reshape(sums, {B, cells}), 1, 0, C * C)}};
}

Metrics metrics_of(const Predictions& predictions, const std::vector<std::string>& classes) {
  const auto array = std::find_if(predictions.outputs.begin(), predictions.outputs.end(),
                                  [](const Predictions::Array& each) { return each.name == "confusion"; });
  if (array == predictions.outputs.end()) return {};
  std::vector<double> counts(classes.size() * classes.size(), 0);
  for (size_t i = 0; i < array->values.size(); ++i) counts[i % counts.size()] += static_cast<double>(array->values[i]);
  return segmentation_metrics(counts, classes);
}

std::shared_ptr<Scenes> scenes_of(const Dataset& data, const ScriptArguments& script, const Scenes& like) {
  const size_t image = need_column(data, script.image_column_name, "image_column_name"),
               label = need_column(data, script.label_column_name.value_or("label"), "label_column_name");
  auto scenes = std::make_shared<Scenes>(like);
  for (int64_t row = 0; row < data.size(); ++row) {
    scenes->pictures.push_back(file_of(data, row, image));
    scenes->maps.push_back(file_of(data, row, label));
  }
  return scenes;
}

// The largest class of all pixels; -1: there is none.
int64_t largest_class(const Scenes& scenes) {
  std::vector<int64_t> largest(scenes.maps.size(), -1);
  parallel_for(scenes.maps.size(), [&](size_t i) {
    const Image map = class_map(scenes.maps[i]);
    for (size_t p = 0; p < map.pixels.size(); p += 3)
      if (const int64_t each = scenes.class_of(map.pixels[p]); each != scenes.ignored)
        largest[i] = std::max(largest[i], each);
  });
  return largest.empty() ? -1 : *std::max_element(largest.begin(), largest.end());
}

// Whether a checkpoint segments already, into more classes than this.
bool has_classes_above(const Config& config, int64_t largest) {
  for (const std::string& name : config.get_strings("architectures")) {
    const Architecture* known = find_architecture(name);
    if (known && *known->head.task == HeadTask::kSegmentation) return number_of_labels(config) > largest;
  }
  return false;
}

}  // namespace

void prepare_semantic_segmentation(const TrainArguments& arguments, const TaskFiles& files, TaskSetup& setup) {
  const ScriptArguments& script = arguments.script;
  const fs::path directory = script.model_name_or_path;
  const fs::path preprocessor = script.image_processor_name.value_or(directory.string());
  if (arguments.training.label_smoothing_factor > 0)
    fail(ErrorKind::kUsage, "--label_smoothing_factor: not with classes of pixels");
  const ImageProcessor processor = ImageProcessor::from_pretrained(preprocessor);
  Scenes like{{}, {}, processor, processor.training_size(), processor.reduces_labels()};
  const std::optional<Config> config = directory.empty() ? std::nullopt : std::optional(read_model_config(directory));
  if (config) like.ignored = config->get_int("semantic_loss_ignore_index", kNoClass);

  std::shared_ptr<Scenes> train, validation;
  if (files.train) train = scenes_of(*files.train, script, like);
  if (files.validation) validation = scenes_of(*files.validation, script, like);
  int64_t largest = -1;
  for (const auto& scenes : {train, validation})
    if (scenes) largest = std::max(largest, largest_class(*scenes));
  LoadOptions options = load_options(arguments, "image-segmentation");
  if (!config || !has_classes_above(*config, largest))
    for (int64_t i = 0; i <= std::max<int64_t>(largest, 1); ++i) options.labels.push_back(fmt::format("LABEL_{}", i));
  setup.model = load_model(arguments, directory.string(), options);
  if (*head_of(*setup.model).labels != HeadLabels::kPixelClasses)
    fail(ErrorKind::kUnsupported,
         "{}: maps of classes are for models that tell the classes of pixels, and {} learns from masks of objects: "
         "--task instance-segmentation",
         setup.model->config().where(), setup.model->architecture());
  const std::vector<std::string> classes = setup.model->labels();
  if (classes.size() < 2)
    fail("{}: expected two classes or more to train on, found {}", setup.model->config().where(), classes.size());

  const Dataset& any = files.any();
  setup.reads = what_is_read({column_part("image", any, *any.find(script.image_column_name)),
                              column_part("label", any, *any.find(script.label_column_name.value_or("label")))},
                             files);
  if (train) setup.train = scenes_for_training(train, arguments);
  if (validation) setup.validation = scenes_for_evaluation(validation);
  setup.objective = std::make_shared<PixelObjective>(arguments.training);
  setup.preprocess_outputs = [ignored = like.ignored](const NamedTensors& outputs) {
    return confusion_of(outputs, ignored);
  };
  setup.compute_metrics = [classes](const Predictions& predictions) { return metrics_of(predictions, classes); };
  setup.metric_names = std::vector<std::string>{"mean_iou", "mean_accuracy", "overall_accuracy"};
  for (const char* kind : {"accuracy_", "iou_"})
    for (const std::string& name : classes) setup.metric_names->push_back(kind + name);
  setup.save_tokenizer = [preprocessor](const std::string& output) { copy_preprocessor(preprocessor, output); };
}

}  // namespace transom
