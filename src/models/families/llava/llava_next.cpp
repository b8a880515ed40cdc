// SPDX-License-Identifier: Apache-2.0
// LLaVA-NeXT (Liu et al., 2024): of a picture the whole and a grid of parts are seen by the tower; the parts' rows are
// put together, lose what lies on the picture's margins, and get a learned row at each line's end. N pictures, P places
// of a part, D hidden.
#include <cmath>

#include "base/error.h"
#include "base/json/json.h"
#include "files/config/picture_grid.h"
#include "models/families/llava/llava_parts.h"
#include "models/vision_language/model_part.h"
#include "models/vision_language/picture_decoder.h"
#include "models/vision_language/vision_tower.h"
#include "transom/ops.h"

namespace transom {
namespace {

// Where the parts of a picture are, and which of their places count.
struct SeenGrid {
  PictureSize picture;
  int64_t rows = 0, columns = 0;  // of parts
  GridInside inside;              // of places
  int64_t parts() const { return rows * columns + 1; }
  int64_t places(int64_t of_part) const { return of_part + inside.height * (inside.width + 1); }
};

class LlavaNextReader : public PictureReader {
 public:
  LlavaNextReader(const Config& config, const Scope& scope, int64_t width)
      : tower_(part_config(config, "vision_config", "clip_vision_model"), VisionFeatures(config),
               scope / "vision_tower"),
        projector_(config, scope / "multi_modal_projector", tower_.width(), width),
        image_newline_(
            scope.parameter("image_newline", {width}, Initial::normal(1 / std::sqrt(static_cast<double>(width))))),
        resolutions_(read_resolutions(config, "image_grid_pinpoints")) {
    const Config vision = config.get_object("vision_config");
    part_ = vision.get_int("image_size", 336);
    const int64_t patch = vision.get_int("patch_size", 14);
    if (part_ < 1 || patch < 1 || patch > part_)
      fail("{}: image_size and patch_size: expected numbers above 0, found {} and {}", vision.where(), part_, patch);
    side_ = part_ / patch;
    expect_multiples(resolutions_, part_, config.where());
  }

  std::vector<std::string> input_names() const override { return {"pixel_values", "image_sizes"}; }

  // pixel_values [N, parts, C, H, W], of which a picture has the first ones.
  PictureRows operator()(const NamedTensors& pictures, ForwardContext& context) const override {
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
      if (grid.inside.height > 0) rows.push_back(lines_of(slice(states, 0, first + 1, first + grid.parts()), grid));
      first += grid.parts();
    }
    return {concatenate(rows, 0)};
  }

  std::vector<PictureApart> apart(const NamedTensors& pictures, ForwardContext&) const override {
    const Tensor& pixels = pixels_of(pictures);
    const std::vector<SeenGrid> grids = grids_of(pictures, pixels);
    std::vector<PictureApart> one_by_one;
    for (size_t i = 0; i < grids.size(); ++i) {
      const auto place = static_cast<int64_t>(i);
      const Tensor own = slice(slice(pixels, 0, place, place + 1), 1, 0, grids[i].parts());
      const Tensor size = Tensor::from(std::vector<int64_t>{grids[i].picture.height, grids[i].picture.width}, {1, 2});
      one_by_one.push_back({{{"pixel_values", own}, {"image_sizes", size}}, grids[i].places(side_ * side_)});
    }
    return one_by_one;
  }

 private:
  static const Tensor& pixels_of(const NamedTensors& pictures) {
    const Tensor& pixels = pictures.at("pixel_values");
    if (pixels.rank() != 5 || pixels.dim(0) < 1)
      fail("pixel_values: expected [pictures, parts, channels, height, width], found {}", to_string(pixels.shape()));
    return pixels;
  }

  std::vector<SeenGrid> grids_of(const NamedTensors& pictures, const Tensor& pixels) const {
    const Tensor& sizes = pictures.at("image_sizes");
    if (sizes.shape() != Shape{pixels.dim(0), 2})
      fail("image_sizes: expected {}, a height and a width for each picture, found {}", to_string({pixels.dim(0), 2}),
           to_string(sizes.shape()));
    const std::vector<int64_t> values = known_numbers(sizes, "image_sizes");
    std::vector<SeenGrid> grids;
    for (size_t i = 0; i + 1 < values.size(); i += 2) {
      const PictureSize size{values[i], values[i + 1]}, best = best_resolution(size, resolutions_);
      SeenGrid grid{size, best.height / part_, best.width / part_, {}};
      grid.inside = inside_of_grid(size, {grid.rows * side_, grid.columns * side_});
      if (grid.parts() > pixels.dim(1))
        fail("pixel_values: picture {} of {} x {} pixels has {} parts, found {}", i / 2, size.width, size.height,
             grid.parts(), pixels.dim(1));
      grids.push_back(grid);
    }
    return grids;
  }

  // [rows columns, P, D] -> [height (width + 1), D]
  Tensor lines_of(const Tensor& parts, const SeenGrid& grid) const {
    const int64_t D = parts.dim(2);
    const Tensor split = reshape(parts, {grid.rows, grid.columns, side_, side_, D});
    const Tensor whole = reshape(permute(split, {0, 2, 1, 3, 4}), {grid.rows * side_, grid.columns * side_, D});
    const GridInside& in = grid.inside;
    const Tensor line_end = cast(image_newline_->value, whole.dtype());
    const Tensor ends = broadcast_to(reshape(line_end, {1, 1, D}), {in.height, 1, D});
    if (in.width == 0) return flatten(ends, 0, 1);
    const Tensor kept = slice(slice(whole, 0, in.top, in.top + in.height), 1, in.left, in.left + in.width);
    return flatten(concatenate({kept, ends}, 1), 0, 1);
  }

  VisionTower tower_;
  LlavaProjector projector_;
  std::shared_ptr<Parameter> image_newline_;
  std::vector<PictureSize> resolutions_;
  int64_t part_ = 0, side_ = 0;
};

Family llava_next_family() { return llava_like("llava_next", "LlavaNext", make_llava_decoder<LlavaNextReader>, {}); }

const RegisterFamilies kLlavaNextFamily{llava_next_family};

}  // namespace
}  // namespace transom
