// SPDX-License-Identifier: Apache-2.0
// Convolutions and their gradients as products over matrix units (implicit GEMM): the elements of images that a tile
// needs are found while it is brought to group memory, so no image is spread out in memory. A weight's gradient, a deep
// product with few results, is made in parts that are added in order.
#include <algorithm>

#include "gpu/lowering/convolution_text.h"
#include "gpu/source/tile_text.h"

namespace transom::gpu {
namespace {

constexpr int64_t kTileSide = 64, kTileWords = 32;
constexpr int64_t kPartDepth = 4096, kMostParts = 64;  // of a weight's gradient; by the depth alone

// The rows, columns and depth of the product of one group of channels.
struct Sides {
  int64_t rows, columns, depth;
};

// "const idx <p>z = ..., <p>y, <p>x, <p>rest" of a flat index of places and what is outside of them.
void split(KernelText& text, const char* prefix, const std::string& flat_index,
           const std::array<std::string, 3>& extents) {
  write_indices(text, prefix, flat_index, extents);
}

// Of output place o and tap t: "qz, qy, qx", the place in the image, and the condition that it is inside.
std::string write_image_place(KernelText& text, const Names& n) {
  std::string inside;
  for (size_t i = 0; i < 3; ++i) {
    text.line("const idx q{0} = o{0} * {1} - {2} + t{0} * {3};", kAxes[i], n.stride[i], n.low[i], n.dilation[i]);
    inside += fmt::format("{0}q{1} >= 0 && q{1} < {2}", i ? " && " : "", kAxes[i], n.x[i]);
  }
  return inside;
}

}  // namespace

bool lower_convolution_by_tiles(Emitter& emitter, const Work& work, const Convolution& c, bool wide) {
  if (c.dtype != TRANSOM_FLOAT32 && !backend::is_half(c.dtype)) return false;
  const std::string& op = work.node.op();
  const bool bytes = op == "integer_convolution", forward = op == "convolution" || bytes;
  const bool to_weight = op == "convolution_weight_gradient";
  const int64_t taps = c.spatial[0].w * c.spatial[1].w * c.spatial[2].w;
  const int64_t inputs = c.channels / c.groups, outputs = c.outputs / c.groups;
  const int64_t in_places = c.spatial[0].x * c.spatial[1].x * c.spatial[2].x;
  const int64_t out_places = c.spatial[0].y * c.spatial[1].y * c.spatial[2].y;
  const Sides sides = forward     ? Sides{c.batch * out_places, outputs, inputs * taps}
                      : to_weight ? Sides{outputs, inputs * taps, c.batch * out_places}
                                  : Sides{c.batch * in_places, inputs, outputs * taps};
  // Narrow products are mostly padding of tiles.
  if (std::min(outputs, forward ? inputs * taps : inputs) < 8 || sides.rows == 0 || sides.depth == 0) return false;

  const transom_dtype from = work.node.input(0).dtype, other = work.node.input(1).dtype;
  const FragmentKind kind = fragment_kind(from);
  const int64_t parts = to_weight ? std::min(divided_up(sides.depth, kPartDepth), kMostParts) : 1;
  const int64_t step = kTileWords * kind.per_word;
  const int64_t part_depth = divided_up(divided_up(sides.depth, parts), step) * step;
  const int64_t count = work.node.output().count();
  const Operand sums = parts > 1 ? emitter.scratch(parts * count * 4) : work.outputs[0];

  KernelText text(wide);
  const Names n(text, c);
  const std::string first = text.address(work.inputs[0], storage_type(from)),
                    second = text.address(work.inputs[1], storage_type(other)),
                    out = text.address(sums, parts > 1 ? "float" : storage_type(c.dtype));
  const std::string rows = text.number(sides.rows), columns = text.number(sides.columns),
                    depth = text.number(sides.depth), ntaps = text.number(taps), ncount = text.number(count);
  const std::string row_tiles = text.number(divided_up(sides.rows, kTileSide)),
                    column_tiles = text.number(divided_up(sides.columns, kTileSide)), ngroups = text.number(c.groups),
                    nparts = text.number(parts), ndeep = text.number(part_depth);
  const Tile left{"left", kTileSide, kTileWords}, right{"right", kTileSide, kTileWords};
  const Results results{kind, "sums", kTileSide, kTileSide}, whole{kind, "whole", 32, kTileSide};
  // Of x - zero point, where x is less 128 already if it is u8. What is padded lies in the tile as the zero point.
  const int64_t zero = bytes ? work.node.integer("zero_point") - (from == TRANSOM_UINT8 ? 128 : 0) : 0;

  // x by an output place and a flat index of channel and tap.
  const auto image = [&](const std::string& place, const std::string& channel_and_tap) {
    split(text, "o", place, n.y);
    split(text, "t", channel_and_tap, n.w);
    const std::string inside = write_image_place(text, n);
    return std::pair(flat(fmt::format("(orest * {} + group * {} + trest)", n.channels, n.channels_of_group), "q", n.x),
                     inside);
  };
  TileSource a{from, first, {}, rows, depth, false}, b{other, second, {}, columns, depth, true};
  if (zero != 0) a.outside = fmt::format("(u32)(u8)({})", text.number(zero));
  if (forward) {
    a.gather = [&](const std::string& r, const std::string& k) { return image(r, k); };
    b.place = [&](const std::string& r, const std::string& k) {
      return fmt::format("(group * {} + {}) * {} + {}", n.outputs_of_group, r, depth, k);
    };
    b.fast = fast_condition(other, second, {depth});
  } else if (to_weight) {
    b.base = first, a.base = second;  // (x, dy)
    a.deep = true, b.deep = false;
    a.gather = [&](const std::string& r, const std::string& k) {
      split(text, "o", k, n.y);
      return std::pair(flat(fmt::format("(orest * {} + group * {} + {})", n.outputs, n.outputs_of_group, r), "o", n.y),
                       std::string());
    };
    b.gather = [&](const std::string& r, const std::string& k) { return image(k, r); };
  } else {  // (dy, w): the depth is of outputs and taps
    a.gather = [&](const std::string& r, const std::string& k) {
      split(text, "q", r, n.x);
      split(text, "t", k, n.w);
      std::string inside;
      for (size_t i = 0; i < 3; ++i) {
        text.line("const idx s{0} = q{0} + {1} - t{0} * {2}, o{0} = s{0} / {3};", kAxes[i], n.low[i], n.dilation[i],
                  n.stride[i]);
        inside += fmt::format("{0}s{1} >= 0 && s{1} % {2} == 0 && o{1} < {3}", i ? " && " : "", kAxes[i], n.stride[i],
                              n.y[i]);
      }
      return std::pair(flat(fmt::format("(qrest * {} + group * {} + trest)", n.outputs, n.outputs_of_group), "o", n.y),
                       inside);
    };
    b.gather = [&](const std::string& r, const std::string& k) {
      text.line("const idx output = {0} / {1}, tap = {0} % {1};", k, ntaps);
      return std::pair(fmt::format("((group * {} + output) * {} + {}) * {} + tap", n.outputs_of_group,
                                   n.channels_of_group, r, ntaps),
                       std::string());
    };
  }

  declare_tile(text, left), declare_tile(text, right);
  text.line("for (idx tile = GROUP; tile < {} * {} * {} * {}; tile += GROUPS) {{", ngroups, nparts, row_tiles,
            column_tiles);
  text.line("const idx row0 = tile / {1} % {0} * {2}, column0 = tile % {1} * {2}, outer = tile / ({0} * {1});",
            row_tiles, column_tiles, kTileSide);
  text.line("const idx group = outer % {0}, part = outer / {0}, end = (part + 1) * {1} < {2} ? (part + 1) * {1} : {2};",
            ngroups, ndeep, depth);
  declare_waves(text, kind);
  declare_results(text, results), clear_results(text, results);
  if (zero != 0) declare_results(text, whole), clear_results(text, whole);
  text.line("for (idx k0 = part * {}; k0 < end; k0 += {}) {{\nBARRIER;", ndeep, step);
  bring_tile(text, left, a, "row0", "k0"), bring_tile(text, right, b, "column0", "k0");
  text.line("BARRIER;");
  multiply_tiles(text, results, left, right, kTileWords);
  if (zero != 0) add_columns(text, whole, right, kTileWords);
  text.line("}}");
  for_results(text, results, [&](const std::string& value) {
    text.line("const idx r = row0 + row, c = column0 + column;\nif (r < {} && c < {}) {{", rows, columns);
    std::string at;
    if (to_weight) {
      at = fmt::format("part * {} + (group * {} + r) * {} + c", ncount, n.outputs_of_group, columns);
    } else if (forward) {
      split(text, "o", "r", n.y);
      at = flat(fmt::format("(orest * {} + group * {} + c)", n.outputs, n.outputs_of_group), "o", n.y);
    } else {
      split(text, "q", "r", n.x);
      at = flat(fmt::format("(qrest * {} + group * {} + c)", n.channels, n.channels_of_group), "q", n.x);
    }
    const std::string sum =
        zero == 0 ? value
                  : fmt::format("({} - (i32){} * whole[f % {}][e])", value, text.number(zero), results.across());
    text.line("{}\n}}", store(text, parts > 1 ? TRANSOM_FLOAT32 : c.dtype, out, at, bytes ? "(float)" + sum : sum));
  });
  text.line("}}");
  const int64_t tiles = c.groups * parts * divided_up(sides.rows, kTileSide) * divided_up(sides.columns, kTileSide);
  emitter.launch(text, std::min<int64_t>(tiles, 1 << 16), op + " 64x64");
  if (parts == 1) return true;

  KernelText sum(wide);
  const std::string made = sum.address(sums, "float"), to = sum.address(work.outputs[0], storage_type(c.dtype));
  const std::string all = sum.number(count), times = sum.number(parts);
  sum.line("{} {{\nfloat total = 0;\nfor (idx p = 0; p < {}; ++p) total += {}[p * {} + i];", loop_over("i", all), times,
           made, all);
  sum.line("{}\n}}", store(sum, c.dtype, to, "i", "total"));
  emitter.launch(sum, groups_for(count, 1), "sum of parts");
  return true;
}

}  // namespace transom::gpu
