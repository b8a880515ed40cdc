// SPDX-License-Identifier: Apache-2.0
#include "work/train/tasks/chats/picture_batches.h"

#include <algorithm>
#include <iterator>

#include "base/error.h"
#include "base/threads/threads.h"
#include "inputs/images/picture_source.h"
#include "models/vision_language/picture_spans.h"

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

namespace {

// Those of the most filled row; null: no row has a picture.
const Pixels* first_picture_of(std::span<const std::vector<Pixels>> rows, int64_t& most) {
  const Pixels* first = nullptr;
  for (const std::vector<Pixels>& row : rows) {
    most = std::max(most, static_cast<int64_t>(row.size()));
    if (!first && !row.empty()) first = &row[0];
  }
  return first;
}

// [rows, most, ...]: which tiles tokens see of the pictures of their row.
FloatRows seen_tiles_of(const PaddedRows& ids, std::span<const std::vector<Pixels>> rows, int64_t most, int64_t tiles,
                        int64_t image_token) {
  FloatRows seen{{ids.rows, ids.length, most, tiles}, {}};
  seen.values.assign(static_cast<size_t>(ids.rows * ids.length * most * tiles), 0.0f);
  for (int64_t row = 0; row < ids.rows; ++row) {
    const std::span<const int64_t> tokens(ids.values.data() + row * ids.length, static_cast<size_t>(ids.length));
    const std::vector<FilledPlaces> spans = spans_of_token(tokens, image_token);
    const std::vector<Pixels>& own = rows[static_cast<size_t>(row)];
    if (spans.size() != own.size())
      fail("a row of the batch has {} places for pictures (token {}), and {} pictures; raise --max_length",
           spans.size(), image_token, own.size());
    for (size_t i = 0; i < spans.size(); ++i)
      for (int64_t place = spans[i].begin; place < spans[i].end(); ++place) {
        const int64_t first = ((row * ids.length + place) * most + static_cast<int64_t>(i)) * tiles;
        std::fill_n(seen.values.begin() + first, own[i].rows * own[i].columns, 1.0f);
      }
  }
  return seen;
}

}  // namespace

void add_grouped_pictures(Batch& batch, std::span<const std::vector<Pixels>> rows, int64_t image_token) {
  int64_t most = 0;
  const Pixels* first = first_picture_of(rows, most);
  if (!first) return;
  const auto count = static_cast<int64_t>(rows.size());
  const auto append = [&](const std::string& name, std::vector<int64_t> shape, const auto& numbers_of, float blank) {
    FloatRows& array = batch.arrays[name];
    shape[0] = count, shape[1] = most;
    size_t each = 1;
    for (size_t axis = 2; axis < shape.size(); ++axis) each *= static_cast<size_t>(shape[axis]);
    for (const std::vector<Pixels>& row : rows) {
      for (const Pixels& picture : row) {
        const auto& numbers = numbers_of(picture);
        if (numbers.size() != each)
          fail(ErrorKind::kInternal, "{}: a picture has {} numbers, another {}", name, numbers.size(), each);
        array.values.insert(array.values.end(), numbers.begin(), numbers.end());
      }
      for (int64_t i = static_cast<int64_t>(row.size()); i < most; ++i) {
        array.values.push_back(blank);
        array.values.resize(array.values.size() + each - 1, 0.0f);
      }
    }
    array.shape = std::move(shape);
  };
  append(
      "pixel_values", first->shape(), [](const Pixels& picture) -> const auto& { return picture.values; }, 0);
  for (size_t i = 0; i < first->beside.size(); ++i) {
    const auto& [name, numbers] = first->beside[i];
    const bool is_mask = name.ends_with("_mask");  // whose first part is told to be there of black pictures too
    append(
        name,
        first->shape_beside(numbers), [i](const Pixels& picture) -> const auto& { return picture.beside.at(i).second; },
        is_mask ? 1 : 0);
  }
  const auto ids = batch.sequences.find("input_ids");
  if (ids == batch.sequences.end() || ids->second.rows != count)
    fail(ErrorKind::kInternal, "pictures of {} rows, and other rows of tokens", count);
  batch.arrays["cross_attention_mask"] = seen_tiles_of(ids->second, rows, most, first->parts, image_token);
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
    if (processor->groups_pictures()) {
      std::vector<std::vector<Pixels>> by_rows;
      auto next = std::make_move_iterator(pixels.begin());
      for (const int64_t row : rows) {
        const auto end = next + static_cast<ptrdiff_t>((*pictures)[static_cast<size_t>(row)].size());
        by_rows.emplace_back(next, end);
        next = end;
      }
      add_grouped_pictures(batch, by_rows, processor->image_token_id());
    } else {
      add_pictures(batch, pixels);
    }
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
