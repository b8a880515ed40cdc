// SPDX-License-Identifier: Apache-2.0
// The tiles of Llama 3.2 Vision (Grattafiori et al., "The Llama 3 herd of models", 2024).
#include <algorithm>
#include <utility>

#include "base/error.h"
#include "files/config/config.h"
#include "inputs/images/picture_cutter.h"

namespace transom {
namespace {

// A picture keeps its form in the canvas of tiles that fits it best, black at the right and below; the
// canvas is cut into its tiles, and tiles that others have more are zeros.
class CanvasCutter : public PictureCutter {
 public:
  CanvasCutter(const Config& config, Resampling resampling)
      : most_(config.get_int("max_image_tiles", 4)), resampling_(resampling) {
    constexpr int64_t kMost = 64, kLargest = 4096;
    if (most_ < 1 || most_ > kMost)
      fail("{}: max_image_tiles: expected a number from 1 to {}, found {}", config.where(), kMost, most_);
    for (const char* needed : {"do_pad", "do_resize"})
      if (!config.get_bool(needed, true))
        fail(ErrorKind::kUnsupported, "{}: {}: this processor does nothing without", config.where(), needed);
    if (config.has("size")) {
      const Config size = config.get_object("size");
      tile_ = size.get_int("height", 0);
      if (tile_ < 1 || tile_ > kLargest || size.get_int("width", 0) != tile_)
        fail("{}: expected a height and the same width, from 1 to {}", size.where(), kLargest);
    }
    for (int64_t rows = 1; rows <= most_; ++rows)
      for (int64_t columns = 1; rows * columns <= most_; ++columns) grids_.push_back({rows, columns});
  }

  std::vector<Image> parts(const Image& image, ImageProcessor::Pixels& made) const override {
    const size_t number = best_grid(image);
    const auto [rows, columns] = grids_[number];
    const Image canvas = crop(fitted(image, rows * tile_, columns * tile_), 0, 0, columns * tile_, rows * tile_);
    std::vector<Image> tiles;
    for (int64_t row = 0; row < rows; ++row)
      for (int64_t column = 0; column < columns; ++column)
        tiles.push_back(crop(canvas, column * tile_, row * tile_, tile_, tile_));
    made.rows = rows, made.columns = columns, made.grouped = true;
    std::vector<int64_t> seen(static_cast<size_t>(most_), 0);
    std::fill_n(seen.begin(), rows * columns, 1);
    made.beside = {{"aspect_ratio_ids", {static_cast<int64_t>(number) + 1}}, {"aspect_ratio_mask", std::move(seen)}};
    return tiles;
  }

  void lay_out(ImageProcessor::Pixels& made) const override {
    made.values.resize(static_cast<size_t>(most_ * 3 * tile_ * tile_), 0.0f);
    made.parts = most_;
  }

 private:
  struct Grid {
    int64_t rows, columns;
  };

  // Of those in which the picture is enlarged the one in which it is so least, else that in which it is reduced least;
  // of several the one with the fewest tiles.
  size_t best_grid(const Image& image) const {
    std::vector<double> scales;
    double least_above = 0, most_below = 0;
    for (const Grid& grid : grids_) {
      const double by_height = static_cast<double>(grid.rows * tile_) / static_cast<double>(image.height),
                   by_width = static_cast<double>(grid.columns * tile_) / static_cast<double>(image.width);
      const double scale = std::min(by_height, by_width);
      scales.push_back(scale);
      if (scale >= 1 && (least_above == 0 || scale < least_above)) least_above = scale;
      if (scale < 1) most_below = std::max(most_below, scale);
    }
    const double chosen = least_above > 0 ? least_above : most_below;
    size_t best = grids_.size();
    for (size_t i = 0; i < grids_.size(); ++i)
      if (scales[i] == chosen && (best == grids_.size() || area(i) < area(best))) best = i;
    return best;
  }
  int64_t area(size_t grid) const { return grids_[grid].rows * grids_[grid].columns; }

  Image fitted(const Image& image, int64_t canvas_height, int64_t canvas_width) const {
    const int64_t width = std::clamp(image.width, tile_, canvas_width),
                  height = std::clamp(image.height, tile_, canvas_height);
    const double by_height = static_cast<double>(height) / static_cast<double>(image.height),
                 by_width = static_cast<double>(width) / static_cast<double>(image.width);
    const auto scaled = [](int64_t extent, double by, int64_t most) {
      return std::clamp<int64_t>(static_cast<int64_t>(static_cast<double>(extent) * by), 1, most);
    };
    if (by_width < by_height) return resize(image, width, scaled(image.height, by_width, height), resampling_);
    return resize(image, scaled(image.width, by_height, width), height, resampling_);
  }

  int64_t tile_ = 224, most_;
  Resampling resampling_;
  std::vector<Grid> grids_;  // by their numbers, from 1 on
};

}  // namespace

std::shared_ptr<const PictureCutter> make_canvas_cutter(const Config& config, Resampling resampling) {
  return std::make_shared<CanvasCutter>(config, resampling);
}

}  // namespace transom
