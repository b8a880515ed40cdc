// SPDX-License-Identifier: Apache-2.0
#include "work/train/tasks/chats/picture_batches.h"

#include <algorithm>

#include "base/error.h"
#include "base/threads/threads.h"
#include "inputs/images/picture_source.h"

namespace transom {
namespace {

using Pixels = ImageProcessor::Pixels;

// What a model is told of each picture beside: a row of numbers each.
void add_numbers(Batch& batch, std::span<const Pixels> pictures) {
  for (const Pixels& picture : pictures)
    for (const auto& [name, numbers] : picture.beside) {
      FloatRows& rows = batch.arrays[name];
      if (rows.shape.empty()) rows.shape = {0, static_cast<int64_t>(numbers.size())};
      rows.values.insert(rows.values.end(), numbers.begin(), numbers.end());
      ++rows.shape[0];
    }
}

// Pictures that are filled up, all to one size.
std::vector<Pixels> filled_up(std::span<const Pixels> pictures) {
  std::vector<Pixels> all(pictures.begin(), pictures.end());
  int64_t height = 0, width = 0;
  for (const Pixels& each : all) height = std::max(height, each.height), width = std::max(width, each.width);
  for (Pixels& each : all) each.fill_up(height, width);
  return all;
}

void add_masks(Batch& batch, std::span<const Pixels> pictures) {
  FloatRows masks;
  for (const Pixels& each : pictures) {
    const std::vector<int64_t> shape = each.mask_shape();
    if (masks.shape.empty()) masks.shape = shape;
    else masks.shape[1] += shape[1];  // parts of one row
    masks.values.insert(masks.values.end(), each.mask.begin(), each.mask.end());
  }
  batch.arrays[pictures[0].mask_name()] = std::move(masks);
}

}  // namespace

void add_pictures(Batch& batch, std::span<const Pixels> given) {
  if (given.empty()) return;
  const bool masked = given[0].parts > 0 && !given[0].mask.empty();
  const std::vector<Pixels> filled = masked ? filled_up(given) : std::vector<Pixels>();
  const std::span<const Pixels> pictures = masked ? std::span<const Pixels>(filled) : given;
  const Pixels& first = pictures[0];
  const bool laid_out = first.patches > 0;  // rows of numbers, as many as a picture has patches
  const bool padded = first.parts > 0 && !first.beside.empty();
  int64_t most = 0, parts = 0;
  for (const Pixels& each : pictures) {
    if (!laid_out && (each.height != first.height || each.width != first.width))
      fail(
          "pictures of a batch: expected one size, found {} x {} and {} x {} pixels; let the processor resize them "
          "(do_resize, do_center_crop), or set --per_device_train_batch_size 1",
          first.width, first.height, each.width, each.height);
    most = std::max(most, each.parts), parts += each.parts;
  }
  const auto count = static_cast<int64_t>(pictures.size());
  FloatRows pixels;
  for (const Pixels& each : pictures) {
    pixels.values.insert(pixels.values.end(), each.values.begin(), each.values.end());
    if (padded) {
      const auto part = each.values.size() / static_cast<size_t>(each.parts);
      pixels.values.resize(pixels.values.size() + part * static_cast<size_t>(most - each.parts), 0.0f);
    }
  }
  if (laid_out) {
    const int64_t width = first.shape()[1];
    pixels.shape = {static_cast<int64_t>(pixels.values.size()) / width, width};
  } else if (first.parts == 0) {
    pixels.shape = {count, 3, first.height, first.width};
  } else {
    pixels.shape = padded ? std::vector<int64_t>{count, most, 3, first.height, first.width}
                          : std::vector<int64_t>{1, parts, 3, first.height, first.width};
  }
  batch.arrays["pixel_values"] = std::move(pixels);
  add_numbers(batch, pictures);
  if (masked) add_masks(batch, pictures);
}

TrainingData with_pictures(TrainingData data, std::vector<std::vector<std::string>> pictures,
                           std::shared_ptr<const ImageTextProcessor> processor) {
  data.batch = [make = std::move(data.batch),
                pictures = std::make_shared<const std::vector<std::vector<std::string>>>(std::move(pictures)),
                processor = std::move(processor)](const std::vector<int64_t>& rows) {
    std::vector<std::string> names;
    std::vector<int64_t> together;  // with each: pictures of its row
    for (const int64_t row : rows) {
      const std::vector<std::string>& own = (*pictures)[static_cast<size_t>(row)];
      names.insert(names.end(), own.begin(), own.end());
      together.insert(together.end(), own.size(), static_cast<int64_t>(own.size()));
    }
    std::vector<Pixels> pixels(names.size());
    parallel_for(names.size(), [&](size_t i) { pixels[i] = processor->prepared(read_picture(names[i]), together[i]); });
    Batch batch = make(rows);
    add_pictures(batch, pixels);
    if (const auto ids = batch.sequences.find("input_ids"); ids != batch.sequences.end()) {
      PaddedRows types = ids->second;
      types.values = processor->token_types(ids->second.values);
      if (!types.values.empty()) batch.sequences["token_type_ids"] = std::move(types);
    }
    return batch;
  };
  return data;
}

}  // namespace transom
