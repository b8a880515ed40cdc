// SPDX-License-Identifier: Apache-2.0
// What Idefics2 and Idefics3 share: a tower of SigLIP's layers for pictures of any form, and readers of texts' tiles,
// of which those that are black throughout only fill up. N tiles, P patches of one, D hidden.
#pragma once

#include <string>
#include <vector>

#include "models/families/siglip/siglip_towers.h"
#include "models/vision_language/picture_decoder.h"

namespace transom {

struct SeenPatches {
  Tensor states;  // [N, P, D]
  Tensor seen;    // i64 [N, P]: 0 where there is no picture
};

// Positions are those of a square grid, of which a picture of another form takes places in proportion.
class IdeficsTower {
 public:
  // Which patches of masked pixels there are: those of which a pixel is seen, or all are.
  enum class Seen { kSomePixel, kAllPixels };
  IdeficsTower(const Scope& scope, const Config& config, Seen seen);
  int64_t width() const { return c_.hidden_size; }
  // [N, C, H, W], i64 [N, H, W] (0: nothing there) or empty
  SeenPatches operator()(const Tensor& pixels, const Tensor& mask, ForwardContext& context) const;

 private:
  Tensor seen_patches(const Tensor& mask, Extents grid) const;
  Tensor places(const Tensor& seen, int64_t extent) const;

  SiglipVisionConfig c_;
  Seen which_;
  int64_t side_;
  std::vector<float> boundaries_;  // where the places of the square grid begin, but for the first
  PatchEmbeddings patch_embedding_;
  Embedding position_embedding_;
  std::vector<SiglipLayer> layers_;
  LayerNorm post_layernorm_;
};

// pixel_values [B, tiles, C, H, W], where those of texts with fewer tiles end with black ones, which no place has;
// pixel_attention_mask [B, tiles, H, W] where pictures do not fill their tiles.
class TileReader : public PictureReader {
 public:
  std::vector<std::string> input_names() const override { return {"pixel_values", "pixel_attention_mask"}; }
  PictureRows operator()(const NamedTensors& pictures, ForwardContext& context) const override;
  std::vector<PictureApart> apart(const NamedTensors& pictures, ForwardContext& context) const override;

 protected:
  // [N, C, H, W], i64 [N, H, W] or empty -> [N, as many for each, D]
  virtual Tensor rows_of(const Tensor& pixels, const Tensor& mask, ForwardContext& context) const = 0;
};

}  // namespace transom
