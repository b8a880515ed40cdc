// SPDX-License-Identifier: Apache-2.0
// What texts of convolutions have in common: the geometry, its numbers as arguments, places in images and windows.
#pragma once

#include <array>

#include "gpu/lowering/lowering.h"

namespace transom::gpu {

struct Spatial {
  int64_t x = 1, w = 1, y = 1, stride = 1, low = 0, dilation = 1;
};

struct Convolution {
  int64_t batch, channels, outputs, groups;
  std::array<Spatial, 3> spatial;
  transom_dtype dtype;
};

inline Convolution convolution_of(const Node& node, const Type& x, const Type& w, const Type& y) {
  const size_t axes = x.rank() - 2;
  if (x.rank() < 3 || x.rank() > 5 || w.rank() != x.rank() || y.rank() != x.rank())
    backend::fail(TRANSOM_UNSUPPORTED, "{}: expected 1 to 3 spatial axes", node.place());
  const Shape &strides = node.integers("strides"), &low = node.integers("low"), &dilations = node.integers("dilations");
  Convolution c{x.shape[0], x.shape[1], y.shape[1], node.integer("groups"), {}, node.output().dtype};
  if (strides.size() != axes || low.size() != axes || dilations.size() != axes || c.groups < 1)
    backend::fail(TRANSOM_INVALID_ARGUMENT, "{}: expected a stride, padding and dilation for each axis", node.place());
  for (size_t i = 0; i < axes; ++i)
    c.spatial[3 - axes + i] = {x.shape[i + 2], w.shape[i + 2], y.shape[i + 2], strides[i], low[i], dilations[i]};
  return c;
}

// Names of the numbers of a convolution in the text.
struct Names {
  std::string channels, outputs, channels_of_group, outputs_of_group, batch;
  std::array<std::string, 3> x, w, y, stride, low, dilation;
  Names(KernelText& text, const Convolution& c)
      : channels(text.number(c.channels)),
        outputs(text.number(c.outputs)),
        channels_of_group(text.number(c.channels / c.groups)),
        outputs_of_group(text.number(c.outputs / c.groups)),
        batch(text.number(c.batch)) {
    for (size_t i = 0; i < 3; ++i) {
      x[i] = text.number(c.spatial[i].x), w[i] = text.number(c.spatial[i].w), y[i] = text.number(c.spatial[i].y);
      stride[i] = text.number(c.spatial[i].stride), low[i] = text.number(c.spatial[i].low);
      dilation[i] = text.number(c.spatial[i].dilation);
    }
  }
};

inline constexpr char kAxes[] = "zyx";

// "const idx <p>z = ..., ...": the spatial indices of `place`, and what is left of it in <p>rest.
inline void write_indices(KernelText& text, const char* prefix, const std::string& place,
                          const std::array<std::string, 3>& extents) {
  text.line("const idx {0}x = {1} % {2}, {0}1 = {1} / {2};", prefix, place, extents[2]);
  text.line("const idx {0}y = {0}1 % {1}, {0}2 = {0}1 / {1};", prefix, extents[1]);
  text.line("const idx {0}z = {0}2 % {1}, {0}rest = {0}2 / {1};", prefix, extents[0]);
}

inline std::string flat(const std::string& outer, const char* prefix, const std::array<std::string, 3>& extents) {
  return fmt::format("((({0} * {2} + {1}z) * {3} + {1}y) * {4} + {1}x)", outer, prefix, extents[0], extents[1],
                     extents[2]);
}

// Over matrix units, where each group of channels makes tiles that are worth it; false where it does not.
bool lower_convolution_by_tiles(Emitter& emitter, const Work& work, const Convolution& c, bool wide);

}  // namespace transom::gpu
