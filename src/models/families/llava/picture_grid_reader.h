// SPDX-License-Identifier: Apache-2.0
// Pictures of any form, of which the tower sees the whole and a grid of parts (LLaVA-NeXT, LLaVA-OneVision): the parts'
// rows are put together, lose what lies on the picture's margins, and get a learned row at each line's end. N pictures,
// P places of a part, D hidden.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "files/config/picture_grid.h"
#include "models/families/llava/llava_parts.h"
#include "models/vision_language/picture_decoder.h"
#include "models/vision_language/vision_tower.h"

namespace transom {

// What a family says of its grids.
struct GridReading {
  std::vector<PictureSize> resolutions;
  std::string tower = "clip_vision_model";    // of a configuration that does not say
  int64_t image_size = 336, patch_size = 14;  // of a tower that says nothing of them
  // A grid of more places than so many parts have is made smaller; 0: all stay.
  int64_t most = 0;
  // Whether pictures of a text that has several are seen as one part each, of which batch_num_images tells: how many
  // pictures each text has, or, of pictures apart from their texts, with how many each is.
  bool alone_in_parts = false;
};

class PictureGridReader : public PictureReader {
 public:
  PictureGridReader(const Config& config, const Scope& scope, int64_t width, GridReading reading);

  std::vector<std::string> input_names() const override;
  // pixel_values [N, parts, C, H, W], of which a picture has the first ones; image_sizes [N, 2].
  PictureRows operator()(const NamedTensors& pictures, ForwardContext& context) const override;
  std::vector<PictureApart> apart(const NamedTensors& pictures, ForwardContext& context) const override;

 private:
  // Where the parts of a picture are, and which of their places count.
  struct SeenGrid {
    PictureSize picture;
    int64_t together = 1;           // pictures of its text
    int64_t rows = 0, columns = 0;  // of parts; 0: the whole alone
    GridInside inside = {};         // of places
    PictureSize kept = {};          // of the places inside, where they become fewer
    int64_t parts() const { return rows * columns + 1; }
    int64_t places(int64_t of_part) const { return of_part + (rows == 0 ? 1 : kept.height * (kept.width + 1)); }
  };

  static const Tensor& pixels_of(const NamedTensors& pictures);
  std::vector<int64_t> numbers_together(const NamedTensors& pictures, int64_t count) const;
  SeenGrid grid_of(PictureSize picture, int64_t together) const;
  std::vector<SeenGrid> grids_of(const NamedTensors& pictures, const Tensor& pixels) const;
  Tensor lines_of(const Tensor& parts, const SeenGrid& grid, const Computing& computing) const;

  GridReading reading_;
  VisionTower tower_;
  LlavaProjector projector_;
  std::shared_ptr<Parameter> image_newline_;
  int64_t part_ = 0, side_ = 0;
};

}  // namespace transom
