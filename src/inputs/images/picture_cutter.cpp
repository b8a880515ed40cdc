// SPDX-License-Identifier: Apache-2.0
#include "inputs/images/picture_cutter.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/error.h"
#include "base/json/json.h"
#include "files/config/config.h"
#include "files/config/picture_grid.h"

namespace transom {
namespace {

int64_t edge_of(const Config& config, const char* field, int64_t otherwise) {
  const int64_t edge = config.has(field) ? config.get_object(field).get_int("longest_edge", 0) : otherwise;
  if (edge < 1 || edge > 1 << 16)
    fail("{}: {}: expected longest_edge from 1 to {}, found {}", config.where(), field, 1 << 16, edge);
  return edge;
}

// Python's int() of a quotient or product.
int64_t whole(double value) { return static_cast<int64_t>(value); }
int64_t next_multiple(int64_t extent, int64_t of) { return (extent + of - 1) / of * of; }

// Idefics3 and SmolVLM: the longest edge becomes that of `size`, both edges then multiples of a tile's; the tiles, and
// at the end the whole picture as one tile. A picture that is one tile stays alone, with 0 rows and columns.
class TileCutter : public PictureCutter {
 public:
  TileCutter(const Config& config, Resampling resampling)
      : tile_(edge_of(config, "max_image_size", 364)),
        splits_(config.get_bool("do_image_splitting", true)),
        resizes_(config.get_bool("do_resize", true)),
        resampling_(resampling) {
    if (config.has("size")) {
      const Config size = config.get_object("size");
      if (size.has("height") || size.has("width")) {
        height_ = size.get_int("height"), width_ = size.get_int("width");
        expect_extents(width_, height_);
      }
    }
    if (height_ == 0) longest_ = edge_of(config, "size", 4 * 364);
    config.get_bool("return_row_col_info", false);
    config.get_bool("do_pad", true);  // for batches
    config.get_object("video_sampling");
  }

  std::vector<Image> parts(const Image& image, ImageProcessor::Pixels& made) const override {
    const Image sized = resizes_ ? resized(image) : image;
    if (!splits_) return {resize(sized, tile_, tile_, resampling_)};
    const Image fitting = in_tiles(sized);
    const int64_t rows = fitting.height / tile_, columns = fitting.width / tile_;
    if (rows <= 1 && columns <= 1) return {fitting};
    std::vector<Image> tiles;
    for (int64_t row = 0; row < rows; ++row)
      for (int64_t column = 0; column < columns; ++column)
        tiles.push_back(crop(fitting, column * tile_, row * tile_, tile_, tile_));
    tiles.push_back(resize(fitting, tile_, tile_, resampling_));
    made.rows = rows, made.columns = columns;
    return tiles;
  }

 private:
  Image resized(const Image& image) const {
    if (height_ > 0) return resize(image, width_, height_, resampling_);
    int64_t height = image.height, width = image.width;
    const double ratio = static_cast<double>(width) / static_cast<double>(height);
    const auto even = [](int64_t extent) { return std::max<int64_t>(extent + extent % 2, 1); };
    if (width >= height) width = longest_, height = even(whole(static_cast<double>(width) / ratio));
    else height = longest_, width = even(whole(static_cast<double>(height) * ratio));
    constexpr int64_t kLargest = 4096;  // of an edge
    const double form = static_cast<double>(width) / static_cast<double>(height);
    if (width >= height && width > kLargest) width = kLargest, height = whole(static_cast<double>(width) / form);
    else if (height > width && height > kLargest) height = kLargest, width = whole(static_cast<double>(height) * form);
    return resize(image, std::max<int64_t>(width, 1), std::max<int64_t>(height, 1), resampling_);
  }

  // Both edges multiples of a tile's.
  Image in_tiles(const Image& image) const {
    const double ratio = static_cast<double>(image.width) / static_cast<double>(image.height);
    int64_t height = 0, width = 0;
    if (image.width >= image.height) {
      width = next_multiple(image.width, tile_);
      height = next_multiple(whole(static_cast<double>(width) / ratio), tile_);
    } else {
      height = next_multiple(image.height, tile_);
      width = next_multiple(whole(static_cast<double>(height) * ratio), tile_);
    }
    // A line of a pixel has no tile in its other direction.
    if (height < 1 || width < 1)
      fail("a picture of {} x {} pixels is too narrow for tiles of {}", image.width, image.height, tile_);
    return resize(image, width, height, resampling_);
  }

  int64_t tile_, longest_ = 0, height_ = 0, width_ = 0;
  bool splits_, resizes_;
  Resampling resampling_;
};

// Idefics2: a picture as large as it is, within limits of its edges, or its four quarters and the whole.
class QuarterCutter : public PictureCutter {
 public:
  QuarterCutter(const Config& config, Resampling resampling)
      : splits_(config.get_bool("do_image_splitting", false)),
        resizes_(config.get_bool("do_resize", true)),
        fills_up_(config.get_bool("do_pad", true)),
        resampling_(resampling) {
    if (!config.has("size")) return;
    const Config size = config.get_object("size");
    shortest_ = size.get_int("shortest_edge", 0), longest_ = size.get_int("longest_edge", 0);
    if (shortest_ == 0 || longest_ == 0) {
      height_ = size.get_int("height", 0), width_ = size.get_int("width", 0);
      expect_extents(width_, height_);
    } else {
      expect_extents(shortest_, longest_);
    }
  }

  bool fills_up() const override { return fills_up_; }

  std::vector<Image> parts(const Image& image, ImageProcessor::Pixels&) const override {
    std::vector<Image> parts;
    const int64_t x = image.width / 2, y = image.height / 2;
    if (splits_) {
      if (x < 1 || y < 1)
        fail("a picture of {} x {} pixels has no four quarters (do_image_splitting)", image.width, image.height);
      parts = {crop(image, 0, 0, x, y), crop(image, x, 0, image.width - x, y), crop(image, 0, y, x, image.height - y),
               crop(image, x, y, image.width - x, image.height - y)};
    }
    parts.push_back(image);
    for (Image& part : parts) {
      if (resizes_) part = resized(part);
      if (!fills_up_ && (part.width != parts[0].width || part.height != parts[0].height))
        fail("a picture of {} x {} pixels has quarters of several sizes; do_pad brings them to one", image.width,
             image.height);
    }
    return parts;
  }

 private:
  Image resized(const Image& image) const {
    if (height_ > 0) return resize(image, width_, height_, resampling_);
    int64_t height = image.height, width = image.width;
    const double ratio = static_cast<double>(width) / static_cast<double>(height);
    if (width >= height && width > longest_) width = longest_, height = whole(static_cast<double>(width) / ratio);
    else if (height > width && height > longest_) height = longest_, width = whole(static_cast<double>(height) * ratio);
    return resize(image, std::max(width, shortest_), std::max(height, shortest_), resampling_);
  }

  int64_t shortest_ = 378, longest_ = 980, height_ = 0, width_ = 0;
  bool splits_, resizes_, fills_up_;
  Resampling resampling_;
};

// LLaVA-NeXT: the whole picture, squeezed into a square, then a grid of parts of the picture as large as fits into the
// best of several resolutions, with black margins. LLaVA-OneVision: the same for a picture that is
// alone in its text; one of several is a square.
class GridCutter : public PictureCutter {
 public:
  // `usual`: the extents of the whole and of parts where nothing is said of them.
  GridCutter(const Config& config, Resampling resampling, std::vector<PictureSize> resolutions, int64_t usual,
             bool alone_in_parts)
      : resolutions_(read_resolutions(config, "image_grid_pinpoints", std::move(resolutions))),
        resampling_(resampling),
        whole_(square_of(config, "size", usual)),
        alone_in_parts_(alone_in_parts) {
    const PictureSize crop = square_of(config, "crop_size", alone_in_parts ? whole_.height : usual);
    part_ = crop.height;
    expect_multiples(resolutions_, part_, config.where());
    config.get_bool("do_pad", true);  // for batches
  }

  bool has_usual_steps() const override { return true; }
  bool squares(const ImageProcessor::Pixels& made) const override { return alone_in_parts_ && made.together > 1; }

  std::vector<Image> parts(const Image& image, ImageProcessor::Pixels& made) const override {
    made.beside.emplace_back("image_sizes", std::vector<int64_t>{image.height, image.width});
    if (alone_in_parts_) made.beside.emplace_back("batch_num_images", std::vector<int64_t>{made.together});
    if (squares(made)) return {image};
    const PictureSize best = best_resolution({image.height, image.width}, resolutions_);
    const PictureSize fitted = fitted_into({image.height, image.width}, best);
    const Image inside = resize(image, fitted.width, fitted.height, resampling_);
    const int64_t left = (best.width - fitted.width) / 2, top = (best.height - fitted.height) / 2;
    std::vector<Image> parts{resize(image, whole_.width, whole_.height, resampling_)};
    made.rows = best.height / part_, made.columns = best.width / part_;
    for (int64_t y = 0; y < best.height; y += part_)
      for (int64_t x = 0; x < best.width; x += part_) parts.push_back(crop(inside, x - left, y - top, part_, part_));
    return parts;
  }

 private:
  static PictureSize square_of(const Config& config, const char* field, int64_t usual) {
    PictureSize size{usual, usual};
    if (config.has(field)) {
      if (json_of(config)[field].is_object()) {
        const Config extents = config.get_object(field);
        const int64_t edge = extents.get_int("shortest_edge", 0);
        size = {extents.get_int("height", edge), extents.get_int("width", edge)};
      } else {
        size.height = size.width = config.get_int(field);
      }
    }
    expect_extents(size.width, size.height);
    return size;
  }

  std::vector<PictureSize> resolutions_;
  Resampling resampling_;
  PictureSize whole_;
  bool alone_in_parts_;
  int64_t part_ = 0;
};

// Gemma 3: the whole picture, and of one that is much longer than wide, or wider, crops side by side (pan and scan),
// all squeezed into one size.
class PanAndScanCutter : public PictureCutter {
 public:
  explicit PanAndScanCutter(const Config& config)
      : scans_(config.get_bool("do_pan_and_scan", false)),
        least_(config.get_int("pan_and_scan_min_crop_size", 256)),
        most_(config.get_int("pan_and_scan_max_num_crops", 4)),
        ratio_(config.get_float("pan_and_scan_min_ratio_to_activate", 1.2)) {
    constexpr int64_t kMostCrops = 1 << 10;
    if (least_ < 1 || most_ < 1 || most_ > kMostCrops)
      fail(
          "{}: pan_and_scan_min_crop_size and pan_and_scan_max_num_crops: expected numbers above 0, the second at most "
          "{}, found {} and {}",
          config.where(), kMostCrops, least_, most_);
  }

  bool has_usual_steps() const override { return true; }

  std::vector<Image> parts(const Image& image, ImageProcessor::Pixels& made) const override {
    std::vector<Image> parts{image};
    made.rows = made.columns = 0;
    if (!scans_) return parts;
    const bool wide = image.width >= image.height;
    const int64_t columns = wide ? crops_along(image.width, image.height) : 1,
                  rows = wide ? 1 : crops_along(image.height, image.width);
    if (rows * columns == 0) return parts;
    const int64_t width = (image.width + columns - 1) / columns, height = (image.height + rows - 1) / rows;
    if (std::min(width, height) < least_) return parts;
    for (int64_t y = 0; y < rows * height; y += height)
      for (int64_t x = 0; x < columns * width; x += width) {
        if (x >= image.width || y >= image.height)
          fail("a picture of {} x {} pixels has no {} crops of {} x {} (pan_and_scan_min_crop_size)", image.width,
               image.height, rows * columns, width, height);
        parts.push_back(crop(image, x, y, std::min(width, image.width - x), std::min(height, image.height - y)));
      }
    made.rows = rows, made.columns = columns;
    return parts;
  }

 private:
  // 0: the picture is not long enough.
  int64_t crops_along(int64_t longer, int64_t shorter) const {
    const double ratio = static_cast<double>(longer) / static_cast<double>(shorter);
    if (ratio < ratio_) return 0;
    const int64_t fitting = std::min(longer / least_, whole(std::floor(ratio + 0.5)));
    return std::min(most_, std::max<int64_t>(2, fitting));
  }

  bool scans_;
  int64_t least_, most_;
  double ratio_;
};

// Qwen2-VL: a picture of any size, with edges that are multiples of a block of patches and a number of pixels between
// two bounds, as rows of numbers: one a patch, the patches of a block side by side, each with its copies in time.
class PatchCutter : public PictureCutter {
 public:
  PatchCutter(const Config& config, Resampling resampling)
      : patch_(number(config, "patch_size", 14, kMostOfPatch)),
        frames_(number(config, "temporal_patch_size", 2, 16)),
        merge_(number(config, "merge_size", 2, kMostOfPatch)),
        resizes_(config.get_bool("do_resize", true)),
        resampling_(resampling) {
    int64_t least = 56 * 56, most = 28 * 28 * 1280;
    if (config.has("size")) {
      const Config size = config.get_object("size");
      least = size.get_int("shortest_edge", size.get_int("min_pixels", least));
      most = size.get_int("longest_edge", size.get_int("max_pixels", most));
    }
    least_ = config.get_int("min_pixels", least), most_ = config.get_int("max_pixels", most);
    constexpr int64_t kMostPixels = int64_t{1} << 32;
    if (least_ < 1 || most_ < least_ || most_ > kMostPixels)
      fail("{}: size: expected numbers of pixels, shortest_edge from 1 and longest_edge from it to {}, found {} and {}",
           config.where(), kMostPixels, least_, most_);
  }

  std::vector<Image> parts(const Image& image, ImageProcessor::Pixels& made) const override {
    const int64_t block = patch_ * merge_;
    Image sized = resizes_ ? resized(image, block) : image;
    if (sized.height % block != 0 || sized.width % block != 0)
      fail("a picture of {} x {} pixels is no multiple of {} x {}, blocks of patches; do_resize makes it one",
           sized.width, sized.height, block, block);
    made.rows = sized.height / block, made.columns = sized.width / block;
    made.beside.emplace_back("image_grid_thw", std::vector<int64_t>{1, sized.height / patch_, sized.width / patch_});
    return {std::move(sized)};
  }

  void lay_out(ImageProcessor::Pixels& made) const override {
    const int64_t plane = made.height * made.width, block = patch_ * merge_;
    std::vector<float> laid;
    laid.reserve(made.values.size() * static_cast<size_t>(frames_));
    const auto add_patch = [&](int64_t y, int64_t x) {
      for (int64_t channel = 0; channel < 3; ++channel)
        for (int64_t frame = 0; frame < frames_; ++frame)
          for (int64_t line = 0; line < patch_; ++line) {
            const auto begin = made.values.begin() + channel * plane + (y + line) * made.width + x;
            laid.insert(laid.end(), begin, begin + patch_);
          }
    };
    for (int64_t y = 0; y < made.height; y += block)
      for (int64_t x = 0; x < made.width; x += block)
        for (int64_t i = 0; i < merge_ * merge_; ++i) add_patch(y + i / merge_ * patch_, x + i % merge_ * patch_);
    made.values = std::move(laid);
    made.parts = 0;
    made.patches = made.height / patch_ * (made.width / patch_);
  }

 private:
  static constexpr int64_t kMostOfPatch = 1 << 10;
  static int64_t number(const Config& config, const char* field, int64_t otherwise, int64_t most) {
    const int64_t value = config.get_int(field, otherwise);
    if (value < 1 || value > most)
      fail("{}: {}: expected a number from 1 to {}, found {}", config.where(), field, most, value);
    return value;
  }

  Image resized(const Image& image, int64_t block) const {
    const auto height = static_cast<double>(image.height), width = static_cast<double>(image.width),
               of = static_cast<double>(block);
    if (std::max(height, width) / std::min(height, width) > 200)
      fail("a picture of {} x {} pixels: expected one edge at most 200 times the other", image.width, image.height);
    // nearbyint rounds halves to even numbers, as Python's round().
    int64_t high = whole(std::nearbyint(height / of)) * block, wide = whole(std::nearbyint(width / of)) * block;
    if (high * wide > most_) {
      const double scale = std::sqrt(height * width / static_cast<double>(most_));
      high = std::max(block, whole(std::floor(height / scale / of)) * block);
      wide = std::max(block, whole(std::floor(width / scale / of)) * block);
    } else if (high * wide < least_) {
      const double scale = std::sqrt(static_cast<double>(least_) / (height * width));
      high = whole(std::ceil(height * scale / of)) * block;
      wide = whole(std::ceil(width * scale / of)) * block;
    }
    expect_extents(wide, high);
    return resize(image, wide, high, resampling_);
  }

  int64_t patch_, frames_, merge_, least_ = 0, most_ = 0;
  bool resizes_;
  Resampling resampling_;
};

// SigLIP 2 (NaFlex): a picture as large as a number of patches admits, in its form, as rows of patches, which zeros
// fill up to that number.
class FlexibleCutter : public PictureCutter {
 public:
  FlexibleCutter(const Config& config, Resampling resampling)
      : patch_(config.get_int("patch_size", 16)),
        most_(config.get_int("max_num_patches", 256)),
        resizes_(config.get_bool("do_resize", true)),
        resampling_(resampling) {
    constexpr int64_t kMostOfPatch = 1 << 10, kMostPatches = 1 << 20;
    if (patch_ < 1 || patch_ > kMostOfPatch || most_ < 1 || most_ > kMostPatches)
      fail("{}: patch_size and max_num_patches: expected numbers from 1 to {} and {}, found {} and {}", config.where(),
           kMostOfPatch, kMostPatches, patch_, most_);
    expect_extents(most_, patch_ * patch_);  // all numbers of a picture
  }

  std::vector<Image> parts(const Image& image, ImageProcessor::Pixels& made) const override {
    Image sized = resizes_ ? resized(image) : image;
    made.rows = sized.height / patch_, made.columns = sized.width / patch_;
    if (sized.height % patch_ != 0 || sized.width % patch_ != 0 || made.rows * made.columns > most_)
      fail("a picture of {} x {} pixels: expected multiples of {}, and at most {} patches; do_resize makes it so",
           sized.width, sized.height, patch_, most_);
    made.beside.emplace_back("spatial_shapes", std::vector<int64_t>{made.rows, made.columns});
    return {std::move(sized)};
  }

  void lay_out(ImageProcessor::Pixels& made) const override {
    const int64_t plane = made.height * made.width;
    std::vector<float> laid;
    laid.reserve(static_cast<size_t>(most_ * patch_ * patch_ * 3));
    for (int64_t top = 0; top < made.height; top += patch_)
      for (int64_t left = 0; left < made.width; left += patch_)
        for (int64_t y = top; y < top + patch_; ++y)
          for (int64_t x = left; x < left + patch_; ++x)
            for (int64_t channel = 0; channel < 3; ++channel)
              laid.push_back(made.values[static_cast<size_t>(channel * plane + y * made.width + x)]);
    laid.resize(static_cast<size_t>(most_ * patch_ * patch_ * 3), 0.0f);
    made.values = std::move(laid);
    made.parts = 0, made.patches = most_;
    made.mask.assign(static_cast<size_t>(most_), 0);
    std::fill_n(made.mask.begin(), made.rows * made.columns, 1);
  }

 private:
  // The largest extents that are found by halving, as Transformers looks for them.
  Image resized(const Image& image) const {
    constexpr double kNear = 1e-5;
    const auto patches = [&](int64_t extent, double scale) {
      const double scaled = std::ceil(static_cast<double>(extent) * scale / static_cast<double>(patch_));
      return std::max<int64_t>(whole(scaled), 1);
    };
    double least = kNear / 10, most = 100;
    while (most - least >= kNear) {
      const double scale = (least + most) / 2;
      const auto count =
          static_cast<double>(patches(image.height, scale)) * static_cast<double>(patches(image.width, scale));
      if (count <= static_cast<double>(most_)) least = scale;
      else most = scale;
    }
    const int64_t height = patches(image.height, least) * patch_, width = patches(image.width, least) * patch_;
    return resize(image, width, height, resampling_);
  }

  int64_t patch_, most_;
  bool resizes_;
  Resampling resampling_;
};

}  // namespace

std::shared_ptr<const PictureCutter> make_picture_cutter(const std::string& family, const Config& config,
                                                         Resampling resampling) {
  if (family == "Idefics3" || family == "SmolVLM") return std::make_shared<TileCutter>(config, resampling);
  if (family == "Idefics2") return std::make_shared<QuarterCutter>(config, resampling);
  if (family == "Gemma3") return std::make_shared<PanAndScanCutter>(config);
  if (family == "LlavaNext")
    return std::make_shared<GridCutter>(config, resampling, llava_next_resolutions(), 224, false);
  if (family == "LlavaOnevision")
    return std::make_shared<GridCutter>(config, resampling, onevision_resolutions(), 384, true);
  if (family == "Qwen2VL") return std::make_shared<PatchCutter>(config, resampling);
  if (family == "Mllama") return make_canvas_cutter(config, resampling);
  if (family == "Siglip2") return std::make_shared<FlexibleCutter>(config, resampling);
  return nullptr;
}

}  // namespace transom
