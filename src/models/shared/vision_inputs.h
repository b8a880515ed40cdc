// SPDX-License-Identifier: Apache-2.0
// What models of images share: checked pixels, patches, and position embeddings for another size. B batch, C channels,
// P patches, D hidden.
#pragma once

#include <array>
#include <limits>
#include <string>
#include <vector>

#include "models/nn/vision/convolution.h"
#include "models/shared/encoder_body.h"
#include "transom/model.h"

namespace transom {

using Extents = std::array<int64_t, 2>;  // height, width

// pixel_values [B, C, H, W]; refuses another number of channels.
const Tensor& image_input(const NamedTensors& inputs, int64_t channels);
Extents size_of(const Tensor& image);

// An image cut into patches, each projected: [B, C, H, W] -> [B, P, D], row by row. What is left at the right and the
// bottom is not looked at.
class PatchEmbeddings {
 public:
  PatchEmbeddings(const Scope& scope, int64_t channels, int64_t width, Extents patch, double deviation,
                  bool bias = true);
  Tensor operator()(const Tensor& image, const ForwardContext& context) const;

 private:
  Convolution projection_;
};

// The number of patches of an image of a size; refuses patches that are no numbers above 0.
Extents patch_grid(Extents image, Extents patch);

// Position embeddings [1, first + N, D], made for a square grid of N patches, for another grid: the `first` ones (of
// class tokens) stay, those of patches are resampled.
Tensor interpolated_positions(const Tensor& positions, int64_t first, Extents grid, const Computing& computing,
                              GridResampling resampling = resize_bicubic);

// Reads a number from outside that must be 1 or more, and no more than `most`.
int64_t positive(const Config& config, std::string_view field, int64_t otherwise,
                 int64_t most = std::numeric_limits<int64_t>::max());

// Masked patches [B, P] get the mask token instead of their embedding [B, P, D].
Tensor with_masked_patches(const Tensor& embeddings, const Tensor& bool_masked_pos, const Tensor& mask_token);

// Of masked image modelling (SimMIM): a 1x1 convolution to stride^2 C values a patch, which make stride x stride
// pixels. [B, P, D], P a square -> [B, C, stride sqrt(P), stride sqrt(P)].
class PixelDecoder {
 public:
  PixelDecoder(const Scope& scope, int64_t width, int64_t channels, int64_t stride);
  Tensor operator()(const Tensor& patches, const ForwardContext& context) const;

 private:
  int64_t channels_, stride_;
  Convolution projection_;
};
// loss (where bool_masked_pos is given: the mean distance of the masked pixels) and reconstruction.
NamedTensors masked_image_outputs(const Tensor& reconstruction, const NamedTensors& inputs,
                                  const ForwardContext& context, int64_t patch, int64_t channels);

}  // namespace transom
