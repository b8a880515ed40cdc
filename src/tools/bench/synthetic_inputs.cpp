// SPDX-License-Identifier: Apache-2.0
// Inputs and labels that are made up, by what the record of a model's class says that it reads and learns from.
#include <algorithm>

#include "base/error.h"
#include "base/numbers/mt19937.h"
#include "files/config/config.h"
#include "models/records.h"
#include "tools/bench/workload.h"
#include "transom/ops.h"

namespace transom {
namespace {

using Kind = FamilyInput::Kind;

constexpr int64_t kSamplesPerFrame = 320;  // of the usual feature extractor: 20 ms at 16 kHz
constexpr int64_t kChoices = 2, kUsualImage = 224;

class Maker {
 public:
  Maker(const Model& model, const BenchOptions& options)
      : model_(model),
        config_(model.config()),
        options_(options),
        batch_(options.batch_size),
        length_(options.sequence_length),
        random_(42) {}

  NamedTensors inputs() {
    if (!find_architecture(model_))
      fail(
          "{}: no inputs can be made up for {}, which has no record; give tensors by their names with --inputs "
          "in.safetensors",
          config_.where(), model_.architecture());
    NamedTensors result;
    for (const FamilyInput& input : inputs_of(model_)) add(input, result);
    return result;
  }

  void add_labels(NamedTensors& inputs) {
    const FamilyHead& head = head_of(model_);
    switch (*head.labels) {
      case HeadLabels::kClass:
        inputs.set("labels", classes());
        break;
      case HeadLabels::kTokenClasses:
        inputs.set("labels", integers({batch_, length_}, 0, number_of_classes()));
        break;
      case HeadLabels::kSpan:
        inputs.set("start_positions", integers({batch_}, 0, length_));
        inputs.set("end_positions", integers({batch_}, 0, length_));
        break;
      case HeadLabels::kChoice:
        inputs.set("labels", integers({batch_}, 0, kChoices));
        break;
      case HeadLabels::kOrder:
        inputs.set("labels", integers({batch_}, 0, 2));
        break;
      case HeadLabels::kClicks:
        inputs.set("labels", cast(integers({batch_}, 0, 2), DType::kFloat32));
        break;
      case HeadLabels::kReplaced:
        inputs.set("labels", integers({batch_, length_}, 0, 2));
        break;
      case HeadLabels::kTokens:
        inputs.set("labels", words({batch_, length_}));
        break;
      case HeadLabels::kCharacters:
        inputs.set("labels", characters());
        break;
      case HeadLabels::kMaskedPatches:
        inputs.set("bool_masked_pos", integers({batch_, patches(inputs.at("pixel_values"))}, 0, 2));
        break;
      case HeadLabels::kBoxes:
        add_boxes(inputs);
        break;
      case HeadLabels::kMasks:
        add_masks(inputs);
        break;
      case HeadLabels::kPixelClasses: {
        const Shape& image = inputs.at("pixel_values").shape();
        inputs.set("labels", integers({batch_, image[2], image[3]}, 0, pixel_classes()));
        break;
      }
      case HeadLabels::kPairs:
        break;
      case HeadLabels::kNone:
      case HeadLabels::kFrameClasses:
      case HeadLabels::kMaskedFrames:
      case HeadLabels::kSpectrum:
        fail(
            "{}: no labels can be made up for {}; give --task text-classification, or tensors with --inputs "
            "in.safetensors",
            config_.where(), model_.architecture());
    }
    if (!head.second_label.empty()) inputs.set(head.second_label, integers({batch_}, 0, 2));
  }

 private:
  Tensor integers(Shape shape, int64_t low, int64_t high) {
    std::vector<int64_t> values(static_cast<size_t>(elements(shape)));
    for (int64_t& value : values) value = low + random_.randint(std::max<int64_t>(1, high - low));
    return Tensor::from(values, shape);
  }

  Tensor normal(Shape shape) {
    std::vector<float> values(static_cast<size_t>(elements(shape)));
    random_.fill_normal(values, 0, 1);
    return Tensor::from(values, shape);
  }

  void add(const FamilyInput& input, NamedTensors& result) {
    switch (input.kind) {
      case Kind::kTokens:
      case Kind::kDecoderTokens:
        if (input.needed) result.set(input.name, tokens(shape_of(input), rows_of(input)));
        break;
      case Kind::kMask:
        result.set(input.name, ones(shape_of(input)));
        break;
      case Kind::kTypes:
        if (input.exported != FamilyInput::Export::kNever && extent_of(config_, input.table).value_or(0) > 1)
          result.set(input.name, integers(shape_of(input), 0, 1));
        break;
      case Kind::kPositions:
      case Kind::kSampleMask:
        break;  // those that the model takes for itself
      case Kind::kPixels:
        if (!input.needed) break;  // their places would have to stand among the tokens
        [[fallthrough]];
      case Kind::kSamples:
      case Kind::kSpectrum:
      case Kind::kNumbers:
        result.set(input.name, normal(shape_of(input)));
        break;
      case Kind::kHiddenPatches: {
        const int64_t count = patches(result.at("pixel_values"));
        std::vector<int64_t> hidden(static_cast<size_t>(batch_ * count));
        for (size_t i = 0; i < hidden.size(); ++i) hidden[i] = static_cast<int64_t>(i) % count % 2;
        result.set(input.name, Tensor::from(hidden, {batch_, count}));
        break;
      }
      case Kind::kBagOffsets:
        result.set(input.name, bags_of_one(static_cast<int64_t>(config_.get_ints(input.each).size())));
        break;
      case Kind::kCategories: {
        const std::vector<int64_t> tables = config_.get_ints(input.each);
        for (size_t i = 0; i < tables.size(); ++i)
          result.set(input.name + "." + std::to_string(i), integers({batch_}, 0, tables[i]));
        break;
      }
    }
  }

  Shape shape_of(const FamilyInput& input) const {
    Shape shape{batch_};
    const bool of_text = input.kind == Kind::kTokens || input.kind == Kind::kMask || input.kind == Kind::kTypes;
    if (of_text && *head_of(model_).task == HeadTask::kMultipleChoice) shape.push_back(kChoices);
    for (const InputExtent& axis : input.axes)
      shape.push_back(extent_of(config_, axis).value_or(free_extent(input.kind)));
    return shape;
  }

  // Of an axis for which every extent will do.
  int64_t free_extent(Kind kind) const {
    if (kind == Kind::kPixels) return config_.get_pair("image_size", kUsualImage)[0];
    return kind == Kind::kSamples || kind == Kind::kSampleMask ? length_ * kSamplesPerFrame : length_;
  }

  int64_t rows_of(const FamilyInput& input) const {
    const std::optional<int64_t> rows = extent_of(config_, input.table);
    if (!rows)
      fail("{}: {}: expected the number of tokens, for {} of {}", config_.where(),
           fmt::join(input.table.fields, " or "), input.name, model_.architecture());
    return *rows;
  }

  // Low ids are special tokens in most vocabularies; padding among them would change what is computed.
  Tensor tokens(Shape shape, int64_t vocabulary) {
    return integers(std::move(shape), std::min<int64_t>(1000, vocabulary / 2), vocabulary);
  }

  static Tensor ones(const Shape& shape) {
    return Tensor::from(std::vector<int64_t>(static_cast<size_t>(elements(shape)), 1), shape);
  }

  Tensor bags_of_one(int64_t tables) const {
    std::vector<int64_t> begins;
    for (int64_t table = 0; table < tables; ++table)
      for (int64_t row = 0; row < batch_; ++row) begins.push_back(row);
    return Tensor::from(begins, {tables, batch_});
  }

  // Three boxes a picture, each of a quarter of it.
  void add_boxes(NamedTensors& inputs) {
    constexpr int64_t kBoxes = 3;
    std::vector<float> boxes;
    for (int64_t i = 0; i < batch_ * kBoxes; ++i) {
      for (int axis = 0; axis < 2; ++axis) boxes.push_back(0.25F + 0.05F * static_cast<float>(random_.randint(11)));
      boxes.insert(boxes.end(), {0.5F, 0.5F});
    }
    inputs.set("class_labels", integers({batch_, kBoxes}, 0, pixel_classes()));
    inputs.set("boxes", Tensor::from(boxes, {batch_, kBoxes, 4}));
  }

  // Three objects a picture, each of a third of its rows.
  void add_masks(NamedTensors& inputs) {
    constexpr int64_t kObjects = 3;
    const Shape& image = inputs.at("pixel_values").shape();
    const int64_t height = image[2], width = image[3];
    std::vector<float> masks;
    for (int64_t object = 0; object < batch_ * kObjects; ++object)
      for (int64_t row = 0; row < height; ++row)
        masks.insert(masks.end(), static_cast<size_t>(width),
                     row * kObjects / height == object % kObjects ? 1.0F : 0.0F);
    inputs.set("class_labels", integers({batch_, kObjects}, 0, pixel_classes()));
    inputs.set("mask_labels", Tensor::from(masks, {batch_, kObjects, height, width}));
  }

  // Of boxes and pixels, which id2label names.
  int64_t pixel_classes() const {
    const auto classes = static_cast<int64_t>(config_.get_map("id2label").size());
    return classes > 0 ? classes : config_.get_int("num_labels", 2);
  }

  int64_t number_of_classes() const {
    const int64_t classes = class_count(config_, head_of(model_));
    return classes > 0 ? classes : 2;
  }

  Tensor classes() {
    const int64_t count = number_of_classes();
    const std::string problem = config_.get_string("problem_type", "");
    if (problem == "multi_label_classification") return cast(integers({batch_, count}, 0, 2), DType::kFloat32);
    if (problem == "regression" && count > 1) return normal({batch_, count});
    return count == 1 || problem == "regression" ? normal({batch_}) : integers({batch_}, 0, count);
  }

  // Where a head sees a few labelled positions alone, these are spread over the sequence.
  Tensor words(const Shape& shape) {
    const Tensor all = integers(shape, 0, vocabulary_of(config_, head_of(model_)));
    const int64_t most = options_.max_predictions_per_seq, length = shape.back();
    if (most == 0 || most >= length) return all;
    std::vector<int64_t> values = all.to_vector<int64_t>();
    for (size_t i = 0; i < values.size(); ++i) {
      const int64_t position = static_cast<int64_t>(i) % length;
      if (position * most / length == (position + 1) * most / length) values[i] = -100;
    }
    return Tensor::from(values, shape);
  }

  // A text of a quarter of the frames, without the character that stands for none.
  Tensor characters() {
    const int64_t none = config_.get_int("pad_token_id", 0);
    std::vector<int64_t> ids =
        integers({batch_, std::max<int64_t>(1, length_ / 4)}, 0, vocabulary_of(config_, head_of(model_)) - 1)
            .to_vector<int64_t>();
    for (int64_t& id : ids) id += id >= none ? 1 : 0;
    return Tensor::from(ids, {batch_, static_cast<int64_t>(ids.size()) / batch_});
  }

  int64_t patches(const Tensor& image) const {
    const auto patch = config_.get_pair("patch_size", 16);
    const int64_t layers =
        image.rank() == 5 ? image.dim(1) / std::max<int64_t>(config_.get_int("tubelet_size", 2), 1) : 1;
    return layers * (image.dim(-2) / patch[0]) * (image.dim(-1) / patch[1]);
  }

  const Model& model_;
  const Config& config_;
  const BenchOptions& options_;
  int64_t batch_, length_;
  Mt19937 random_;
};

}  // namespace

bool has_synthetic_labels(const Model& model) {
  const Architecture* known = find_architecture(model);
  if (!known) return false;
  const HeadLabels labels = *known->head.labels;
  return labels != HeadLabels::kNone && labels != HeadLabels::kFrameClasses && labels != HeadLabels::kMaskedFrames &&
         labels != HeadLabels::kSpectrum;
}

NamedTensors synthetic_inputs(const Model& model, const BenchOptions& options, bool labels) {
  Maker maker(model, options);
  NamedTensors inputs = maker.inputs();
  if (labels) maker.add_labels(inputs);
  return inputs;
}

}  // namespace transom
