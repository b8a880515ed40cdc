// SPDX-License-Identifier: Apache-2.0
#include "models/families/llava/picture_grid_reader.h"

#include <cmath>
#include <numeric>
#include <utility>

#include "base/error.h"
#include "models/nn/vision/upsampling.h"
#include "models/vision_language/model_part.h"
#include "transom/ops.h"

namespace transom {
namespace {

constexpr const char* kPicturesOfTexts = "batch_num_images";

}  // namespace

PictureGridReader::PictureGridReader(const Config& config, const Scope& scope, int64_t width, GridReading reading)
    : reading_(std::move(reading)),
      tower_(part_config(config, "vision_config", reading_.tower), VisionFeatures(config), scope / "vision_tower"),
      projector_(config, scope / "multi_modal_projector", tower_.width(), width),
      image_newline_(
          scope.parameter("image_newline", {width}, Initial::normal(1 / std::sqrt(static_cast<double>(width))))) {
  const Config vision = config.get_object("vision_config");
  part_ = vision.get_int("image_size", reading_.image_size);
  const int64_t patch = vision.get_int("patch_size", reading_.patch_size);
  if (part_ < 1 || patch < 1 || patch > part_)
    fail("{}: image_size and patch_size: expected numbers above 0, found {} and {}", vision.where(), part_, patch);
  side_ = part_ / patch;
  expect_multiples(reading_.resolutions, part_, config.where());
}

std::vector<std::string> PictureGridReader::input_names() const {
  std::vector<std::string> names{"pixel_values", "image_sizes"};
  if (reading_.alone_in_parts) names.emplace_back(kPicturesOfTexts);
  return names;
}

PictureRows PictureGridReader::operator()(const NamedTensors& pictures, ForwardContext& context) const {
  const Tensor& pixels = pixels_of(pictures);
  const std::vector<SeenGrid> grids = grids_of(pictures, pixels);
  std::vector<int64_t> seen;
  for (size_t i = 0; i < grids.size(); ++i)
    for (int64_t part = 0; part < grids[i].parts(); ++part)
      seen.push_back(static_cast<int64_t>(i) * pixels.dim(1) + part);
  Tensor parts = flatten(pixels, 0, 1);
  const auto count = static_cast<int64_t>(seen.size());
  if (count < parts.dim(0)) parts = gather(parts, Tensor::from(seen, {count}), 0);
  const Tensor states = projector_(tower_(parts, context), context);  // [parts, P, D]
  if (states.dim(1) != side_ * side_)
    fail("a part of a picture gives {} places, expected {} x {} patches (vision_feature_select_strategy)",
         states.dim(1), side_, side_);
  std::vector<Tensor> rows;
  int64_t first = 0;
  for (const SeenGrid& grid : grids) {
    rows.push_back(squeeze(slice(states, 0, first, first + 1), 0));
    if (grid.rows == 0) rows.push_back(cast(unsqueeze(image_newline_->value, 0), states.dtype()));
    else if (grid.kept.height > 0)
      rows.push_back(lines_of(slice(states, 0, first + 1, first + grid.parts()), grid, context.computing));
    first += grid.parts();
  }
  return {concatenate(rows, 0)};
}

std::vector<PictureApart> PictureGridReader::apart(const NamedTensors& pictures, ForwardContext&) const {
  const Tensor& pixels = pixels_of(pictures);
  const std::vector<SeenGrid> grids = grids_of(pictures, pixels);
  std::vector<PictureApart> one_by_one;
  for (size_t i = 0; i < grids.size(); ++i) {
    const auto place = static_cast<int64_t>(i);
    const SeenGrid& grid = grids[i];
    NamedTensors own{{"pixel_values", slice(slice(pixels, 0, place, place + 1), 1, 0, grid.parts())},
                     {"image_sizes", Tensor::from(std::vector{grid.picture.height, grid.picture.width}, {1, 2})}};
    if (reading_.alone_in_parts) own.set(kPicturesOfTexts, Tensor::from(std::vector{grid.together}, {1}));
    one_by_one.push_back({std::move(own), grid.places(side_ * side_)});
  }
  return one_by_one;
}

const Tensor& PictureGridReader::pixels_of(const NamedTensors& pictures) {
  const Tensor& pixels = pictures.at("pixel_values");
  if (pixels.rank() != 5 || pixels.dim(0) < 1)
    fail("pixel_values: expected [pictures, parts, channels, height, width], found {}", to_string(pixels.shape()));
  return pixels;
}

// For each picture the number of pictures of its text.
std::vector<int64_t> PictureGridReader::numbers_together(const NamedTensors& pictures, int64_t count) const {
  const Tensor given = reading_.alone_in_parts ? pictures.find(kPicturesOfTexts) : Tensor();
  if (!given.defined()) return std::vector<int64_t>(static_cast<size_t>(count), 1);
  const std::vector<int64_t> numbers = known_numbers(given, kPicturesOfTexts);
  constexpr int64_t kMost = 1 << 20;
  for (const int64_t number : numbers)
    if (number < 0 || number > kMost)
      fail("{}: expected numbers from 0 to {}, found {}", kPicturesOfTexts, kMost, number);
  if (std::accumulate(numbers.begin(), numbers.end(), int64_t{0}) == count) {
    std::vector<int64_t> all;
    for (const int64_t number : numbers) all.insert(all.end(), static_cast<size_t>(number), number);
    return all;
  }
  if (static_cast<int64_t>(numbers.size()) != count)
    fail("{}: expected the numbers of pictures of texts, {} in all, found {}", kPicturesOfTexts, count,
         fmt::join(numbers, ", "));
  return numbers;
}

PictureGridReader::SeenGrid PictureGridReader::grid_of(PictureSize picture, int64_t together) const {
  SeenGrid grid{.picture = picture, .together = together};
  if (together > 1) return grid;
  const PictureSize best = best_resolution(picture, reading_.resolutions);
  grid.rows = best.height / part_, grid.columns = best.width / part_;
  grid.inside = inside_of_grid(picture, {grid.rows * side_, grid.columns * side_});
  grid.kept = fewer_places(grid.inside, side_, reading_.most);
  return grid;
}

std::vector<PictureGridReader::SeenGrid> PictureGridReader::grids_of(const NamedTensors& pictures,
                                                                     const Tensor& pixels) const {
  const Tensor& sizes = pictures.at("image_sizes");
  if (sizes.shape() != Shape{pixels.dim(0), 2})
    fail("image_sizes: expected {}, a height and a width for each picture, found {}", to_string({pixels.dim(0), 2}),
         to_string(sizes.shape()));
  const std::vector<int64_t> values = known_numbers(sizes, "image_sizes");
  const std::vector<int64_t> together = numbers_together(pictures, pixels.dim(0));
  std::vector<SeenGrid> grids;
  for (size_t i = 0; 2 * i < values.size(); ++i) {
    grids.push_back(grid_of({values[2 * i], values[2 * i + 1]}, together[i]));
    if (grids.back().parts() > pixels.dim(1))
      fail("pixel_values: picture {} of {} x {} pixels has {} parts, found {}", i, values[2 * i + 1], values[2 * i],
           grids.back().parts(), pixels.dim(1));
  }
  return grids;
}

// [rows columns, P, D] -> [height (width + 1), D]
Tensor PictureGridReader::lines_of(const Tensor& parts, const SeenGrid& grid, const Computing& computing) const {
  const int64_t D = parts.dim(2);
  const Tensor split = reshape(parts, {grid.rows, grid.columns, side_, side_, D});
  const Tensor whole = reshape(permute(split, {0, 2, 1, 3, 4}), {grid.rows * side_, grid.columns * side_, D});
  const GridInside& in = grid.inside;
  const auto [height, width] = grid.kept;
  const Tensor line_end = cast(image_newline_->value, whole.dtype());
  const Tensor ends = broadcast_to(reshape(line_end, {1, 1, D}), {height, 1, D});
  if (width == 0) return flatten(ends, 0, 1);
  Tensor kept = slice(slice(whole, 0, in.top, in.top + in.height), 1, in.left, in.left + in.width);
  if (height != in.height || width != in.width) {
    const Tensor map = unsqueeze(permute(kept, {2, 0, 1}), 0);
    kept = permute(squeeze(resize_bilinear(map, height, width, false, computing), 0), {1, 2, 0});
  }
  return flatten(concatenate({kept, ends}, 1), 0, 1);
}

}  // namespace transom
