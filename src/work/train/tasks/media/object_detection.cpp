// SPDX-License-Identifier: Apache-2.0
// run_object_detection: pictures, and the boxes and classes of what they show. Pictures are prepared as the model's
// processor does it; for training half of them are mirrored.
#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>
#include <tuple>

#include "base/error.h"
#include "base/json/json.h"
#include "base/numbers/mt19937.h"
#include "base/threads/threads.h"
#include "inputs/data/columns.h"
#include "inputs/data/tables/labelled_files.h"
#include "inputs/images/augment.h"
#include "inputs/images/image_processor.h"
#include "transom/ops.h"
#include "work/train/metrics/box_metrics.h"
#include "work/train/setup/new_model.h"
#include "work/train/step/model_loss.h"
#include "work/train/tasks/media/object_classes.h"
#include "work/train/tasks/media/random_of_row.h"
#include "work/train/tasks/read_report.h"
#include "work/train/tasks/tasks.h"
#include "work/train/tasks/text/text_features.h"

namespace transom {
namespace {

namespace fs = std::filesystem;

constexpr const char* kBoxColumn = "objects.bbox";

// What a picture shows: boxes (left, top, width, height) in pixels, and the names or numbers of their classes.
struct ShownObjects {
  fs::path picture;
  std::vector<std::array<double, 4>> boxes;
  std::vector<std::string> names;  // of numbers their digits
};

ShownObjects objects_of(const Dataset& data, int64_t index, size_t image, size_t boxes, size_t classes) {
  const Row row = data.row(index);
  const std::string where = data.where(index);
  ShownObjects objects{file_of(data, index, image), {}, {}};
  for (const Json& box : list_of_objects(row[boxes], where)) {
    std::array<double, 4> sides{};
    bool fits = box.is_array() && box.size() == 4;
    for (size_t i = 0; fits && i < 4; ++i)
      if ((fits = box[i].is_number())) sides[i] = box[i].get<double>();
    if (!fits || sides[2] < 0 || sides[3] < 0)
      fail("{}: {}: expected boxes [left, top, width, height] in pixels, found {}", where, kBoxColumn,
           quoted(dump_json(box)));
    objects.boxes.push_back(sides);
  }
  objects.names = object_names(row[classes], where);
  if (objects.names.size() != objects.boxes.size())
    fail("{}: expected a class for each box, found {} and {}", where, objects.names.size(), objects.boxes.size());
  return objects;
}

struct DetectionRows {
  std::vector<ShownObjects> rows;
  std::vector<std::vector<int64_t>> classes;  // of each row's boxes
  ImageProcessor processor;

  // A picture for the model, and its boxes as parts of that, padding included. What lies outside is cut off; a box of
  // which nothing is left is left out.
  struct Prepared {
    ImageProcessor::Pixels pixels;
    int64_t picture_width = 0, picture_height = 0;  // of the pixels, the part that is no padding
    std::vector<std::array<float, 4>> boxes;        // centre and extents, in parts of the picture
    std::vector<int64_t> classes;
  };
  Prepared prepared(size_t row, bool mirrors) const {
    const Image image = read_image(rows[row].picture);
    Prepared result{processor(mirrors ? flipped(image) : image), 0, 0, {}, {}};
    const ImageProcessor::Pixels& pixels = result.pixels;
    result.picture_width = pixels.width, result.picture_height = pixels.height;
    if (!pixels.mask.empty()) {
      const auto first_row = pixels.mask.begin();
      result.picture_width = std::count(first_row, first_row + pixels.width, 1);
      result.picture_height = std::count(pixels.mask.begin(), pixels.mask.end(), 1) / result.picture_width;
    }
    const auto width = static_cast<double>(image.width), height = static_cast<double>(image.height);
    for (size_t i = 0; i < rows[row].boxes.size(); ++i) {
      const auto& [x, y, w, h] = rows[row].boxes[i];
      double left = std::clamp(x, 0.0, width), right = std::clamp(x + w, 0.0, width);
      const double top = std::clamp(y, 0.0, height), bottom = std::clamp(y + h, 0.0, height);
      if (right <= left || bottom <= top) continue;
      if (mirrors) std::tie(left, right) = std::pair(width - right, width - left);
      result.boxes.push_back({static_cast<float>((left + right) / 2 / width),
                              static_cast<float>((top + bottom) / 2 / height),
                              static_cast<float>((right - left) / width), static_cast<float>((bottom - top) / height)});
      result.classes.push_back(classes[row][i]);
    }
    return result;
  }

  // The rows padded to the largest picture and to a power of two of boxes, so that few shapes come.
  void fill(Batch& batch, const std::vector<int64_t>& wanted, const std::vector<char>& mirrors) const {
    std::vector<Prepared> all(wanted.size());
    parallel_for(wanted.size(), [&](size_t i) { all[i] = prepared(static_cast<size_t>(wanted[i]), mirrors[i] != 0); });
    int64_t height = 1, width = 1;
    size_t most = 1;
    for (const Prepared& each : all) {
      height = std::max(height, each.pixels.height), width = std::max(width, each.pixels.width);
      while (most < each.boxes.size()) most *= 2;
    }
    const auto count = static_cast<int64_t>(all.size()), boxes = static_cast<int64_t>(most);
    const auto plane = static_cast<size_t>(height * width);
    FloatRows pixels{{count, 3, height, width}, std::vector<float>(3 * plane * all.size(), 0)},
        mask{{count, height, width}, std::vector<float>(plane * all.size(), 0)},
        labels{{count, boxes}, std::vector<float>(most * all.size(), static_cast<float>(kIgnoredLabel))},
        places{{count, boxes, 4}, std::vector<float>(4 * most * all.size(), 0)};
    for (size_t i = 0; i < all.size(); ++i) {
      const Prepared& each = all[i];
      for (int64_t y = 0; y < each.pixels.height; ++y)
        for (int64_t c = 0; c < 3; ++c)
          std::copy_n(
              each.pixels.values.begin() + (c * each.pixels.height + y) * each.pixels.width, each.pixels.width,
              pixels.values.begin() + static_cast<ptrdiff_t>((3 * i + static_cast<size_t>(c)) * plane) + y * width);
      for (int64_t y = 0; y < each.picture_height; ++y)
        std::fill_n(mask.values.begin() + static_cast<ptrdiff_t>(i * plane) + y * width, each.picture_width, 1.0f);
      // Boxes are parts of the padded picture.
      const std::array<float, 2> parts{static_cast<float>(each.picture_width) / static_cast<float>(width),
                                       static_cast<float>(each.picture_height) / static_cast<float>(height)};
      for (size_t b = 0; b < each.boxes.size(); ++b) {
        labels.values[i * most + b] = static_cast<float>(each.classes[b]);
        for (size_t k = 0; k < 4; ++k) places.values[4 * (i * most + b) + k] = each.boxes[b][k] * parts[k % 2];
      }
    }
    batch.arrays["pixel_values"] = std::move(pixels);
    batch.arrays["pixel_mask"] = std::move(mask);
    batch.arrays["class_labels"] = std::move(labels);
    batch.arrays["boxes"] = std::move(places);
  }
};

TrainingData rows_for_evaluation(std::shared_ptr<const DetectionRows> rows) {
  TrainingData data;
  data.rows = static_cast<int64_t>(rows->rows.size());
  data.batch = [rows](const std::vector<int64_t>& wanted) {
    Batch batch;
    rows->fill(batch, wanted, std::vector<char>(wanted.size(), 0));
    return batch;
  };
  return data;
}

// A batch is its rows' numbers until the draw is known.
TrainingData rows_for_training(std::shared_ptr<const DetectionRows> rows, const TrainArguments& arguments) {
  constexpr const char* kRows = "rows";
  TrainingData data;
  data.rows = static_cast<int64_t>(rows->rows.size());
  data.batch = [](const std::vector<int64_t>& wanted) {
    Batch batch;
    batch.numbers[kRows] = wanted;
    return batch;
  };
  data.augment = [rows, seed = arguments.training.seed, flip = arguments.script.random_flip](Batch& batch,
                                                                                             uint64_t draw) {
    const std::vector<int64_t> wanted = std::move(batch.numbers.at(kRows));
    batch.numbers.erase(kRows);
    std::vector<char> mirrors(wanted.size(), 0);
    for (size_t i = 0; flip && i < wanted.size(); ++i) mirrors[i] = random_of_row(seed, draw, i).randint(2) == 1;
    rows->fill(batch, wanted, mirrors);
  };
  return data;
}

// The model's loss; evaluations are given the labels beside what the model says.
class BoxObjective : public ModelLoss {
 public:
  using ModelLoss::ModelLoss;
  Tensor loss(const LossPass& pass, const NamedTensors& inputs, NamedTensors* outputs) const override {
    const Tensor loss = ModelLoss::loss(pass, inputs, outputs);
    for (const char* label : {"class_labels", "boxes"})
      if (outputs) outputs->set(label, inputs.at(label));
    return loss;
  }
  bool has_loss(const NamedTensors& inputs) const override { return inputs.find("class_labels").defined(); }
};

std::shared_ptr<DetectionRows> read_rows(const Dataset& data, const ScriptArguments& script,
                                         const ImageProcessor& processor) {
  const size_t image = need_column(data, script.image_column_name, "image_column_name"),
               boxes = need_column(data, kBoxColumn, "objects"),
               classes = need_column(data, kObjectClassColumn, "objects");
  auto rows = std::make_shared<DetectionRows>(DetectionRows{{}, {}, processor});
  for (int64_t i = 0; i < data.size(); ++i) rows->rows.push_back(objects_of(data, i, image, boxes, classes));
  return rows;
}

// The names of classes that the rows need: none where the checkpoint detects them already.
std::vector<std::string> classes_of(const std::vector<std::shared_ptr<DetectionRows>>& sets,
                                    const std::vector<std::string>& known) {
  std::vector<std::string> names;
  for (const auto& set : sets)
    for (const ShownObjects& row : set->rows) names.insert(names.end(), row.names.begin(), row.names.end());
  return new_object_classes(std::move(names), known);
}

void number_classes(DetectionRows& rows, const std::vector<std::string>& classes) {
  for (const ShownObjects& row : rows.rows) {
    std::vector<int64_t>& ids = rows.classes.emplace_back();
    for (const std::string& name : row.names) ids.push_back(object_class(name, classes, row.picture.string()));
  }
}

// The array of an output; labels and what the model says are parts of the same padded pictures.
const Predictions::Array& array_of(const Predictions& predictions, std::string_view name) {
  const auto at = std::find_if(predictions.outputs.begin(), predictions.outputs.end(),
                               [&](const Predictions::Array& each) { return each.name == name; });
  if (at == predictions.outputs.end()) fail(ErrorKind::kInternal, "an evaluation without {}", name);
  return *at;
}

// Boxes at the extents of the pictures as they came, as run_object_detection measures them.
std::vector<PictureBoxes> boxes_of(const Predictions& predictions, const char* places, const char* classes,
                                   const char* scores, const DetectionRows& rows) {
  const Predictions::Array &boxes = array_of(predictions, places), &ids = array_of(predictions, classes);
  const auto each = static_cast<size_t>(ids.shape.at(1));
  std::vector<PictureBoxes> result(rows.rows.size());
  for (size_t i = 0; i < result.size(); ++i) {
    const Image picture = read_image(rows.rows[i].picture);
    const auto width = static_cast<double>(picture.width), height = static_cast<double>(picture.height);
    for (size_t at = i * each; at < (i + 1) * each; ++at) {
      if (ids.values.at(at) < 0) continue;
      const float* box = &boxes.values.at(4 * at + 3) - 3;
      const double w = box[2] * width, h = box[3] * height;
      result[i].boxes.push_back({box[0] * width - w / 2, box[1] * height - h / 2, w, h});
      result[i].classes.push_back(static_cast<int64_t>(ids.values[at]));
      if (scores) result[i].scores.push_back(array_of(predictions, scores).values.at(at));
    }
  }
  return result;
}

// Of each query its best class; of detectors whose `classes` each have a chance of their own, with no class for
// "nothing", as many as there are queries of the most certain classes of all queries.
NamedTensors best_classes(const NamedTensors& outputs, int64_t classes) {
  const Tensor& logits = outputs.at("logits");
  NamedTensors result{{"class_labels", outputs.at("class_labels")}, {"boxes", outputs.at("boxes")}};
  if (logits.dim(2) == classes) {
    const int64_t B = logits.dim(0), Q = logits.dim(1);
    const auto [scores, places] = top_k(flatten(sigmoid(cast(logits, DType::kFloat32)), 1, 2), Q);  // [B, Q]
    const Tensor count = full({B, Q}, static_cast<double>(classes), DType::kInt64);
    const Tensor queries = broadcast_to(unsqueeze(div(places, count), 2), {B, Q, 4});
    result.set("scores", scores);
    result.set("classes", cast(remainder(places, count), DType::kFloat32));
    result.set("pred_boxes", take_along_axis(outputs.at("pred_boxes"), queries, 1));
    return result;
  }
  const Tensor chances = slice(softmax(cast(logits, DType::kFloat32), Computing{}), 2, 0, logits.dim(2) - 1);
  result.set("scores", reduce_max(chances, {2}));
  result.set("classes", cast(arg_max(chances, 2), DType::kFloat32));
  result.set("pred_boxes", outputs.at("pred_boxes"));
  return result;
}

}  // namespace

void prepare_object_detection(const TrainArguments& arguments, const TaskFiles& files, TaskSetup& setup) {
  const ScriptArguments& script = arguments.script;
  const fs::path directory = script.model_name_or_path;
  const fs::path preprocessor = script.image_processor_name.value_or(directory.string());
  if (arguments.training.label_smoothing_factor > 0)
    fail(ErrorKind::kUsage, "--label_smoothing_factor: not with boxes");
  const ImageProcessor processor = ImageProcessor::from_pretrained(preprocessor);
  std::vector<std::shared_ptr<DetectionRows>> sets;
  std::shared_ptr<DetectionRows> train, validation;
  if (files.train) sets.push_back(train = read_rows(*files.train, script, processor));
  if (files.validation) sets.push_back(validation = read_rows(*files.validation, script, processor));
  LoadOptions options = load_options(arguments, "object-detection");
  options.labels = classes_of(sets, classes_of_checkpoint(directory, HeadTask::kObjectDetection));
  setup.model = load_model(arguments, directory.string(), options);
  const std::vector<std::string> classes = setup.model->labels();
  for (const auto& set : sets) number_classes(*set, classes);

  const Dataset& any = files.any();
  setup.reads = what_is_read(
      {column_part("image", any, *any.find(script.image_column_name)), column_part("boxes", any, *any.find(kBoxColumn)),
       column_part("classes", any, *any.find(kObjectClassColumn))},
      files);
  if (train) setup.train = rows_for_training(train, arguments);
  if (validation) setup.validation = rows_for_evaluation(validation);
  setup.objective = std::make_shared<BoxObjective>(arguments.training);
  setup.preprocess_outputs = [count = static_cast<int64_t>(classes.size())](const NamedTensors& outputs) {
    return best_classes(outputs, count);
  };
  setup.compute_metrics = [validation, classes](const Predictions& predictions) {
    if (!validation) return Metrics();
    return box_metrics(boxes_of(predictions, "boxes", "class_labels", nullptr, *validation),
                       boxes_of(predictions, "pred_boxes", "classes", "scores", *validation), classes);
  };
  setup.save_tokenizer = [preprocessor](const std::string& output) { copy_preprocessor(preprocessor, output); };
}

}  // namespace transom
