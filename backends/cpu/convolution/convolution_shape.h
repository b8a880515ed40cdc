// SPDX-License-Identifier: Apache-2.0
// The extents of a convolution and of its two gradients: x [N, C, spatial...], w [O, C/groups, window...],
// y [N, O, spatial...]. Which of the three is the result is the kind. In memory x and y may have their channels last.
#pragma once

#include <optional>

#include "cpu/kernels/kernel.h"

namespace transom::cpu {

enum class ConvolutionKind { kForward, kInputGradient, kWeightGradient };

struct ConvolutionShape {
  ConvolutionKind kind;
  transom_dtype dtype;
  Shape x, w, y;  // channels first, whatever the layout
  Shape strides, low, high, dilations;
  int64_t groups;
  bool channels_last = false;  // the layout of x and y

  // The tensors in the order of the node's inputs, then its output.
  const Shape& input(size_t i) const {
    if (i == 0) return kind == ConvolutionKind::kInputGradient ? y : x;
    return kind == ConvolutionKind::kWeightGradient ? y : w;
  }
  const Shape& result() const {
    return kind == ConvolutionKind::kForward ? y : kind == ConvolutionKind::kInputGradient ? x : w;
  }
};

// Reads a node and refuses extents that do not belong together.
ConvolutionShape convolution_shape(const Node& node, ConvolutionKind kind);

// Strides of a dense image whose shape is given channels first.
Shape image_strides(const Shape& shape, bool channels_last);

// f64 and integers, channels first.
Kernel plain_convolution(const ConvolutionShape& shape);

// Of bytes, exact: integer_convolution and its form with the channels last.
Kernel integer_convolution(const Node& node);
// The same by own products of rows (byte_products).
Kernel integer_convolution_of_places(const ConvolutionShape& shape, int64_t zero_point, bool frozen);
// The same by Winograd's tiles, where that is faster; else nothing.
std::optional<Kernel> integer_convolution_of_tiles(const ConvolutionShape& shape, int64_t zero_point, bool frozen);

// f32 and, where the processor computes on it, bf16. Other types go through f32. `apart`: of a forward pass, each image
// is computed as if it were alone, since how the work is cut changes the order of sums.
Kernel library_convolution(const ConvolutionShape& shape, bool frozen, bool apart = false);

}  // namespace transom::cpu
