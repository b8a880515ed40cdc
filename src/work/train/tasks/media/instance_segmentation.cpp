// SPDX-License-Identifier: Apache-2.0
// run_instance_segmentation: pictures, and the masks and classes of the objects that they show, as rows of COCO list
// them or as a map has them, whose red levels are classes and whose green levels number the objects. Pictures and masks
// are brought to one size; for training half of them are mirrored. B batch, Q queries, N objects, C classes.
#include <algorithm>
#include <cmath>
#include <filesystem>

#include "base/error.h"
#include "base/files/files.h"
#include "base/numbers/mt19937.h"
#include "base/threads/threads.h"
#include "files/config/config.h"
#include "inputs/data/columns.h"
#include "inputs/data/tables/coco_masks.h"
#include "inputs/data/tables/labelled_files.h"
#include "inputs/images/image_processor.h"
#include "models/nn/vision/upsampling.h"
#include "models/records.h"
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

constexpr const char* kPreprocessorFile = "preprocessor_config.json";
constexpr const char* kClassNumbers = "semantic_class_to_id.";  // columns with the numbers of classes

// The checkpoint's processor, for pictures of one size.
Json preprocessor_for(const fs::path& directory, const ScriptArguments& script) {
  Json said = read_json(directory / kPreprocessorFile);
  if (!said.is_object()) fail("{}: expected an object", (directory / kPreprocessorFile).string());
  if (said.contains("pad_size") && !said["pad_size"].is_null())
    fail(ErrorKind::kUnsupported, "{}: pad_size: pictures for instance segmentation all have the size that is given",
         (directory / kPreprocessorFile).string());
  said["do_resize"] = true;
  said["size"] = Json{{"height", script.image_height}, {"width", script.image_width}};
  said.erase("reduce_labels");
  said["do_reduce_labels"] = script.do_reduce_labels;
  return said;
}

// An object of a picture.
struct Instance {
  ObjectMask mask;
  int64_t label = 0;
};

struct InstanceRows {
  std::vector<fs::path> pictures;
  // Either the maps of all rows, or of each row the masks as COCO writes them and their classes.
  std::vector<fs::path> maps;
  std::vector<std::vector<std::string>> masks, names;
  std::vector<std::vector<int64_t>> classes;
  ImageProcessor processor;
  bool reduces = false;
  int64_t ignored = -1;  // the number of objects that do not count

  // The objects that a map has, each with the largest of its classes.
  std::vector<Instance> objects_of_map(size_t row, const Image& picture) const {
    const Image map = read_image(maps[row]);
    if (map.width != picture.width || map.height != picture.height)
      fail("{}: expected the extents of {}, {} x {}, found {} x {}", maps[row].string(), pictures[row].string(),
           picture.width, picture.height, map.width, map.height);
    std::array<int64_t, 256> labels{};
    labels.fill(-1);
    for (size_t p = 0; p < map.pixels.size(); p += 3)
      labels[map.pixels[p + 1]] = std::max<int64_t>(labels[map.pixels[p + 1]], map.pixels[p]);
    std::vector<Instance> objects;
    for (int64_t number = reduces ? 1 : 0; number < 256; ++number) {
      const int64_t label = labels[static_cast<size_t>(number)] - (reduces ? 1 : 0);
      if (labels[static_cast<size_t>(number)] < 0 || number - (reduces ? 1 : 0) == ignored) continue;
      if (label < 0)
        fail("{}: object {} has class 0, which --do_reduce_labels says is none", maps[row].string(), number);
      ObjectMask mask{map.width, map.height, std::vector<uint8_t>(map.pixels.size() / 3)};
      for (size_t i = 0; i < mask.pixels.size(); ++i) mask.pixels[i] = map.pixels[3 * i + 1] == number;
      objects.push_back({std::move(mask), label});
    }
    return objects;
  }

  std::vector<Instance> objects_of(size_t row, const Image& picture) const {
    if (!maps.empty()) return objects_of_map(row, picture);
    std::vector<Instance> objects;
    for (size_t i = 0; i < masks[row].size(); ++i)
      objects.push_back(
          {object_mask(masks[row][i], picture.width, picture.height, pictures[row].string()), classes[row][i]});
    return objects;
  }

  struct Prepared {
    ImageProcessor::Pixels pixels;
    std::vector<std::vector<float>> masks;  // of the extents of the pixels
    std::vector<int64_t> classes;
  };
  Prepared prepared(size_t row, bool mirrors) const;
  void fill(Batch& batch, const std::vector<int64_t>& wanted, const std::vector<char>& mirrors) const;
};

// The pixels of an extent that Pillow's nearest neighbours take: a picture of their numbers is resized.
std::vector<size_t> nearest_places(int64_t from, int64_t to, bool mirrors) {
  Image numbers(from, 1);
  for (int64_t i = 0; i < from; ++i)
    for (int64_t c = 0; c < 3; ++c) numbers.row(0)[3 * i + c] = static_cast<uint8_t>(i >> 8 * c & 255);
  const Image taken = resize(numbers, to, 1, Resampling::kNearest);
  std::vector<size_t> places;
  for (int64_t i = 0; i < to; ++i) {
    const uint8_t* pixel = taken.row(0) + 3 * i;
    const int64_t place = pixel[0] + 256 * pixel[1] + 65536 * pixel[2];
    places.push_back(static_cast<size_t>(mirrors ? from - 1 - place : place));
  }
  return places;
}

// Objects of which nothing is left at the new extents are left out.
InstanceRows::Prepared InstanceRows::prepared(size_t row, bool mirrors) const {
  const Image image = read_image(pictures[row]);
  Prepared result{processor(mirrors ? flipped(image) : image), {}, {}};
  const std::vector<size_t> columns = nearest_places(image.width, result.pixels.width, mirrors),
                            lines = nearest_places(image.height, result.pixels.height, false);
  for (const Instance& object : objects_of(row, image)) {
    std::vector<float> mask;
    mask.reserve(lines.size() * columns.size());
    for (const size_t y : lines)
      for (const size_t x : columns) mask.push_back(object.mask.pixels[y * static_cast<size_t>(image.width) + x]);
    if (std::find(mask.begin(), mask.end(), 1.0f) == mask.end()) continue;
    result.masks.push_back(std::move(mask));
    result.classes.push_back(object.label);
  }
  return result;
}

// The rows padded to a power of two of objects, so that few shapes come.
void InstanceRows::fill(Batch& batch, const std::vector<int64_t>& wanted, const std::vector<char>& mirrors) const {
  std::vector<Prepared> all(wanted.size());
  parallel_for(wanted.size(), [&](size_t i) { all[i] = prepared(static_cast<size_t>(wanted[i]), mirrors[i] != 0); });
  const int64_t height = all.at(0).pixels.height, width = all[0].pixels.width;
  size_t most = 1;
  for (const Prepared& each : all)
    while (most < each.masks.size()) most *= 2;
  const auto count = static_cast<int64_t>(all.size()), objects = static_cast<int64_t>(most);
  const auto plane = static_cast<size_t>(height * width);
  FloatRows pixels{{count, 3, height, width}, std::vector<float>(3 * plane * all.size())},
      labels{{count, objects}, std::vector<float>(most * all.size(), static_cast<float>(kIgnoredLabel))},
      masks{{count, objects, height, width}, std::vector<float>(plane * most * all.size(), 0)};
  for (size_t i = 0; i < all.size(); ++i) {
    std::copy(all[i].pixels.values.begin(), all[i].pixels.values.end(),
              pixels.values.begin() + static_cast<ptrdiff_t>(3 * i * plane));
    for (size_t k = 0; k < all[i].masks.size(); ++k) {
      labels.values[i * most + k] = static_cast<float>(all[i].classes[k]);
      std::copy(all[i].masks[k].begin(), all[i].masks[k].end(),
                masks.values.begin() + static_cast<ptrdiff_t>((i * most + k) * plane));
    }
  }
  batch.arrays["pixel_values"] = std::move(pixels);
  batch.arrays["class_labels"] = std::move(labels);
  batch.arrays["mask_labels"] = std::move(masks);
}

TrainingData instances_for_evaluation(std::shared_ptr<const InstanceRows> rows) {
  TrainingData data;
  data.rows = static_cast<int64_t>(rows->pictures.size());
  data.batch = [rows](const std::vector<int64_t>& wanted) {
    Batch batch;
    rows->fill(batch, wanted, std::vector<char>(wanted.size(), 0));
    return batch;
  };
  return data;
}

// A batch is its rows' numbers until the draw is known.
TrainingData instances_for_training(std::shared_ptr<const InstanceRows> rows, const TrainArguments& arguments) {
  constexpr const char* kRows = "rows";
  TrainingData data;
  data.rows = static_cast<int64_t>(rows->pictures.size());
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
class MaskObjective : public ModelLoss {
 public:
  using ModelLoss::ModelLoss;
  Tensor loss(const LossPass& pass, const NamedTensors& inputs, NamedTensors* outputs) const override {
    const Tensor loss = ModelLoss::loss(pass, inputs, outputs);
    for (const char* label : {"class_labels", "mask_labels"})
      if (outputs) outputs->set(label, inputs.at(label));
    return loss;
  }
  bool has_loss(const NamedTensors& inputs) const override { return inputs.find("class_labels").defined(); }
};

// The pixels of an extent that torch's interpolation "nearest" takes.
Tensor nearest_of_extent(int64_t from, int64_t to) {
  const float scale = static_cast<float>(from) / static_cast<float>(to);
  std::vector<int64_t> places;
  for (int64_t i = 0; i < to; ++i)
    places.push_back(std::min<int64_t>(static_cast<int64_t>(std::floor(static_cast<float>(i) * scale)), from - 1));
  return Tensor::from(places, {to});
}

// Objects as post_process_instance_segmentation tells them, and how many pixels they share with the labelled ones: as
// many pairs of a query and a class as there are queries.
NamedTensors compared_masks(const NamedTensors& outputs) {
  constexpr int64_t kSquare = 384;  // to which masks are brought first
  const Tensor labels = outputs.find("mask_labels");
  if (!labels.defined()) return {};
  const Tensor& logits = outputs.at("class_queries_logits");
  const int64_t B = logits.dim(0), Q = logits.dim(1), C = logits.dim(2) - 1, N = labels.dim(1);
  const Tensor squares =
      resize_bilinear(cast(outputs.at("masks_queries_logits"), DType::kFloat32), kSquare, kSquare, false, Computing{});
  const Tensor on = cast(greater(squares, full(squares.shape(), 0)), DType::kFloat32);
  const Tensor sure = reduce_sum(sigmoid(squares) * on, {2, 3}) / (reduce_sum(on, {2, 3}) + 1e-6);  // [B, Q]
  const Tensor masks =
      gather(gather(on, nearest_of_extent(kSquare, labels.dim(2)), 2), nearest_of_extent(kSquare, labels.dim(3)), 3);
  const Tensor areas = reduce_sum(masks, {2, 3});
  const Tensor wanted = flatten(cast(labels, DType::kFloat32), 2, 3);
  const Tensor both = dot_general(wanted, flatten(masks, 2, 3), {{0}, {0}, {2}, {2}}, Computing{});  // [B, N, Q]

  const Tensor chances = slice(softmax(cast(logits, DType::kFloat32), Computing{}), 2, 0, C);
  const auto [scores, places] = top_k(flatten(chances, 1, 2), Q);  // [B, Q]
  const Tensor count = full({B, Q}, static_cast<double>(C), DType::kInt64), queries = div(places, count);
  const Tensor found_areas = take_along_axis(areas, queries, 1);
  const Tensor is_somewhere = greater(found_areas, full({B, Q}, 0));
  return {{"class_labels", outputs.at("class_labels")},
          {"label_areas", reduce_sum(wanted, {2})},
          {"both", take_along_axis(both, broadcast_to(unsqueeze(queries, 1), {B, N, Q}), 2)},
          {"scores", scores * take_along_axis(sure, queries, 1)},
          {"classes", select(is_somewhere, cast(remainder(places, count), DType::kFloat32), full({B, Q}, -1))},
          {"areas", found_areas}};
}

const Predictions::Array& values_of_output(const Predictions& predictions, std::string_view name) {
  const auto at = std::find_if(predictions.outputs.begin(), predictions.outputs.end(),
                               [&](const Predictions::Array& each) { return each.name == name; });
  if (at == predictions.outputs.end()) fail(ErrorKind::kInternal, "an evaluation without {}", name);
  return *at;
}

Metrics mask_metrics(const Predictions& predictions, const std::vector<std::string>& classes) {
  if (predictions.outputs.empty()) return {};
  const auto array = [&](std::string_view name) -> const Predictions::Array& {
    return values_of_output(predictions, name);
  };
  const Predictions::Array &labels = array("class_labels"), &label_areas = array("label_areas"), &both = array("both"),
                           &scores = array("scores"), &ids = array("classes"), &areas = array("areas");
  const auto N = static_cast<size_t>(labels.shape.at(1)), Q = static_cast<size_t>(scores.shape.at(1));
  std::vector<ComparedPicture> pictures(static_cast<size_t>(labels.shape[0]));
  for (size_t i = 0; i < pictures.size(); ++i) {
    ComparedPicture& picture = pictures[i];
    std::vector<size_t> wanted;
    for (size_t k = 0; k < N; ++k) {
      if (labels.values.at(i * N + k) < 0) continue;
      wanted.push_back(k);
      picture.labelled.classes.push_back(static_cast<int64_t>(labels.values[i * N + k]));
      picture.labelled.areas.push_back(label_areas.values.at(i * N + k));
    }
    for (size_t q = 0; q < Q; ++q) {
      if (ids.values.at(i * Q + q) < 0) continue;
      const double area = areas.values.at(i * Q + q);
      picture.found.classes.push_back(static_cast<int64_t>(ids.values[i * Q + q]));
      picture.found.areas.push_back(area);
      picture.found.scores.push_back(std::nearbyint(static_cast<double>(scores.values.at(i * Q + q)) * 1e6) / 1e6);
      for (const size_t k : wanted) {
        const double shared = both.values.at((i * N + k) * Q + q);
        picture.overlaps.push_back(shared / (area + label_areas.values[i * N + k] - shared));
      }
    }
  }
  return object_metrics(pictures, classes);
}

std::shared_ptr<InstanceRows> read_instances(const Dataset& data, const ScriptArguments& script,
                                             const InstanceRows& like) {
  auto rows = std::make_shared<InstanceRows>(like);
  const size_t image = need_column(data, script.image_column_name, "image_column_name");
  const std::optional<size_t> masks = script.label_column_name ? std::nullopt : data.find(kMaskColumn);
  const size_t label =
      masks ? need_column(data, kObjectClassColumn, "objects")
            : need_column(data, script.label_column_name.value_or(kObjectMapColumn), "label_column_name");
  for (int64_t i = 0; i < data.size(); ++i) {
    rows->pictures.push_back(file_of(data, i, image));
    if (!masks) {
      rows->maps.push_back(file_of(data, i, label));
      continue;
    }
    const Row row = data.row(i);
    rows->names.push_back(object_names(row[label], data.where(i)));
    std::vector<std::string>& said = rows->masks.emplace_back();
    for (const Json& mask : list_of_objects(row[*masks], data.where(i))) said.push_back(dump_json(mask));
    if (said.size() != rows->names.back().size())
      fail("{}: expected a class for each mask, found {} and {}", data.where(i), rows->names.back().size(),
           said.size());
  }
  return rows;
}

// The classes that columns semantic_class_to_id.NAME number; none where there are no such columns.
std::vector<std::string> numbered_classes(const Dataset& data, bool reduces) {
  const std::string prefix = kClassNumbers;
  std::vector<std::string> names;
  const Row row = data.row(0);
  for (size_t i = 0; i < data.columns().size(); ++i) {
    const std::string& column = data.columns()[i].name;
    const auto* number = std::get_if<int64_t>(&row[i]);
    if (!column.starts_with(prefix) || !number) continue;
    const int64_t place = *number - (reduces ? 1 : 0);
    if (place < 0) continue;
    if (place > 255) fail("{}: {}: expected a level of a map, found {}", data.where(0), column, *number);
    while (std::ssize(names) <= place) names.push_back(fmt::format("LABEL_{}", names.size()));
    names[static_cast<size_t>(place)] = column.substr(prefix.size());
  }
  return names;
}

// What a model needs that learns from maps; none where `known` are enough.
std::vector<std::string> classes_of_maps(const std::vector<std::shared_ptr<InstanceRows>>& sets, const Dataset& any,
                                         const std::vector<std::string>& known) {
  std::vector<std::string> names = numbered_classes(any, sets[0]->reduces);
  int64_t largest = -1;
  for (const auto& set : sets) {
    std::vector<int64_t> of_rows(set->maps.size(), -1);
    parallel_for(of_rows.size(), [&](size_t i) {
      for (const Instance& object : set->objects_of_map(i, read_image(set->pictures[i])))
        of_rows[i] = std::max(of_rows[i], object.label);
    });
    for (const int64_t each : of_rows) largest = std::max(largest, each);
  }
  if (!names.empty()) {
    if (largest >= std::ssize(names))
      fail("{}: expected a class of each level of the maps in {}, found none of {}", any.name(), kClassNumbers,
           largest + (sets[0]->reduces ? 1 : 0));
    return names == known ? std::vector<std::string>() : names;
  }
  if (largest < std::ssize(known)) return {};
  for (int64_t i = 0; i <= largest; ++i) names.push_back(fmt::format("LABEL_{}", i));
  return names;
}

std::vector<std::string> classes_of_lists(const std::vector<std::shared_ptr<InstanceRows>>& sets,
                                          const std::vector<std::string>& known) {
  std::vector<std::string> names;
  for (const auto& set : sets)
    for (const auto& row : set->names) names.insert(names.end(), row.begin(), row.end());
  return new_object_classes(std::move(names), known);
}

}  // namespace

void prepare_instance_segmentation(const TrainArguments& arguments, const TaskFiles& files, TaskSetup& setup) {
  const ScriptArguments& script = arguments.script;
  const fs::path directory = script.model_name_or_path;
  const fs::path preprocessor = script.image_processor_name.value_or(directory.string());
  if (arguments.training.label_smoothing_factor > 0)
    fail(ErrorKind::kUsage, "--label_smoothing_factor: not with masks of objects");
  const Json prepares = preprocessor_for(preprocessor, script);
  const std::string where = (preprocessor / kPreprocessorFile).string();
  const Config config = make_config(prepares, where);
  InstanceRows like{.processor = ImageProcessor(config, config.get_string("image_processor_type", ""))};
  like.reduces = script.do_reduce_labels;
  like.ignored = config.has("ignore_index") ? config.get_int("ignore_index") : -1;
  std::vector<std::shared_ptr<InstanceRows>> sets;
  std::shared_ptr<InstanceRows> train, validation;
  if (files.train) sets.push_back(train = read_instances(*files.train, script, like));
  if (files.validation) sets.push_back(validation = read_instances(*files.validation, script, like));
  if (sets.empty()) fail(ErrorKind::kUsage, "--train_file or --validation_file is missing");
  const std::vector<std::string> known = classes_of_checkpoint(directory, HeadTask::kSegmentation);
  const bool of_maps = !sets[0]->maps.empty();
  LoadOptions options = load_options(arguments, "image-segmentation");
  options.labels = of_maps ? classes_of_maps(sets, files.any(), known) : classes_of_lists(sets, known);
  setup.model = load_model(arguments, directory.string(), options);
  if (*head_of(*setup.model).labels != HeadLabels::kMasks)
    fail(ErrorKind::kUnsupported,
         "{}: masks of objects are for models whose queries each tell a class and a mask, and {} tells the classes of "
         "pixels, which --task image-segmentation trains",
         setup.model->config().where(), setup.model->architecture());
  const std::vector<std::string> classes = setup.model->labels();
  for (const auto& set : sets)
    for (size_t i = 0; i < set->names.size(); ++i) {
      std::vector<int64_t>& ids = set->classes.emplace_back();
      for (const std::string& name : set->names[i])
        ids.push_back(object_class(name, classes, set->pictures[i].string()));
    }

  const Dataset& any = files.any();
  const std::string shown = of_maps ? script.label_column_name.value_or(kObjectMapColumn) : kMaskColumn;
  setup.reads = what_is_read({column_part("image", any, *any.find(script.image_column_name)),
                              column_part(of_maps ? "map of objects" : "masks", any, *any.find(shown)),
                              fmt::format("{} classes", classes.size())},
                             files);
  if (train) setup.train = instances_for_training(train, arguments);
  if (validation) setup.validation = instances_for_evaluation(validation);
  setup.objective = std::make_shared<MaskObjective>(arguments.training);
  setup.preprocess_outputs = compared_masks;
  setup.compute_metrics = [classes](const Predictions& predictions) { return mask_metrics(predictions, classes); };
  setup.save_tokenizer = [prepares](const std::string& output) {
    write_file(fs::path(output) / kPreprocessorFile, dump_json(prepares, 2) + "\n");
  };
}

}  // namespace transom
