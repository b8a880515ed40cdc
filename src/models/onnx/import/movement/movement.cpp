// SPDX-License-Identifier: Apache-2.0
// Operators that move elements without looking at them.
#include <algorithm>
#include <limits>
#include <numeric>

#include "models/onnx/import/elementwise/element_values.h"
#include "models/onnx/import/run/graph_run.h"
#include "models/onnx/import/run/operators.h"

namespace transom::onnx {
namespace {

using Axes = std::vector<int64_t>;

Results transpose_operator(Call& call) {
  const Tensor& x = call.tensor(0);
  Axes permutation = call.integers("perm");
  if (!call.attribute("perm")) {
    permutation.resize(static_cast<size_t>(x.rank()));
    std::iota(permutation.rbegin(), permutation.rend(), int64_t{0});
  }
  permutation = call.axes(permutation, x.rank());
  call.require(static_cast<int64_t>(permutation.size()) == x.rank(), "perm does not name every axis");
  return {{call.type(0), permute(x, permutation)}};
}

Results concat(Call& call) {
  const int64_t axis =
      call.axis(call.version() < 4 ? call.integer("axis", 1) : call.integer("axis"), call.tensor(0).rank());
  std::vector<Tensor> parts;
  for (size_t i = 0; i < call.inputs(); ++i) {
    call.require(call.type(i) == call.type(0), "its inputs are of several types");
    parts.push_back(call.tensor(i));
  }
  return {{call.type(0), concatenate(parts, axis)}};
}

// One axis of Slice: NumPy's rules, a negative step walks backwards.
Tensor sliced(const Tensor& x, int64_t axis, int64_t start, int64_t end, int64_t step) {
  const int64_t extent = x.dim(axis);
  const auto from_end = [&](int64_t place) { return place < 0 ? place + extent : place; };
  if (step > 0) {
    start = std::clamp<int64_t>(from_end(start), 0, extent);
    end = std::clamp<int64_t>(from_end(end), start, extent);
    end = std::max(start, end);
    return slice(x, axis, start, end, std::min(step, std::max<int64_t>(extent, 1)));
  }
  start = std::clamp<int64_t>(from_end(start), -1, extent - 1);
  end = std::clamp<int64_t>(from_end(end), -1, start);
  // Places start, start + step, ... above end: those of the reversed axis from extent - 1 - start on.
  const Tensor turned = reverse(x, {axis});
  const int64_t stride = step == std::numeric_limits<int64_t>::min() ? std::numeric_limits<int64_t>::max() : -step;
  return slice(turned, axis, extent - 1 - start, extent - 1 - end, std::min(stride, std::max<int64_t>(extent, 1)));
}

Results slice_operator(Call& call) {
  Tensor x = call.tensor(0);
  const bool inputs = call.version() >= 10;
  const Axes starts = inputs ? call.integers(1) : call.integers("starts"),
             ends = inputs ? call.integers(2) : call.integers("ends");
  Axes axes(starts.size()), steps(starts.size(), 1);
  std::iota(axes.begin(), axes.end(), int64_t{0});
  if (inputs ? call.has(3) : call.attribute("axes") != nullptr)
    axes = inputs ? call.integers(3) : call.integers("axes");
  if (inputs && call.has(4)) steps = call.integers(4);
  axes = call.axes(axes, x.rank());
  call.require(ends.size() == starts.size() && axes.size() == starts.size() && steps.size() == starts.size(),
               "starts, ends, axes and steps differ in length");
  for (size_t i = 0; i < starts.size(); ++i) {
    call.require(steps[i] != 0, "a step is 0");
    x = sliced(x, axes[i], starts[i], ends[i], steps[i]);
  }
  return {{call.type(0), x}};
}

Results split(Call& call) {
  const Tensor& x = call.tensor(0);
  const int64_t axis = call.axis(call.integer("axis", 0), x.rank()), extent = x.dim(axis);
  Axes sizes = call.version() < 13 ? call.integers("split") : call.has(1) ? call.integers(1) : Axes();
  if (sizes.empty()) {
    const int64_t parts = call.version() >= 18 ? call.integer("num_outputs", static_cast<int64_t>(call.outputs()))
                                               : static_cast<int64_t>(call.outputs());
    call.require(parts > 0 && parts <= 1'000'000, "the number of parts is impossible");
    const int64_t size = (extent + parts - 1) / parts;
    for (int64_t i = 0; i < parts; ++i) sizes.push_back(std::clamp<int64_t>(extent - i * size, 0, size));
  }
  Results results;
  int64_t start = 0;
  for (const int64_t size : sizes) {
    call.require(size >= 0 && size <= extent - start, "the parts do not fit the axis");
    results.emplace_back(call.type(0), slice(x, axis, start, start + size));
    start += size;
  }
  call.require(start == extent, "the parts do not cover the axis");
  return results;
}

Results tile(Call& call) {
  const Tensor& x = call.tensor(0);
  Axes repeats;
  if (call.version() < 6) {
    repeats.assign(static_cast<size_t>(x.rank()), 1);
    repeats[static_cast<size_t>(call.axis(call.integer_of(call.tensor(2)), x.rank()))] =
        call.integer_of(call.tensor(1));
  } else {
    repeats = call.integers(1);
  }
  call.require(repeats.size() == x.shape().size(), "repeats must have a number for each axis");
  Shape spread, broadcast, result;
  for (size_t i = 0; i < repeats.size(); ++i) {
    int64_t extent = 0;
    call.require(
        repeats[i] >= 0 && !__builtin_mul_overflow(repeats[i], x.shape()[i], &extent) && extent < int64_t{1} << 40,
        "repeats are impossible");
    spread.insert(spread.end(), {1, x.shape()[i]});
    broadcast.insert(broadcast.end(), {repeats[i], x.shape()[i]});
    result.push_back(extent);
  }
  return {{call.type(0), reshape(broadcast_to(reshape(x, spread), broadcast), result)}};
}

// ---- padding

// Where each place of a padded axis comes from in the unpadded one.
Axes sources(const Call& call, const std::string& mode, int64_t extent, int64_t low, int64_t high) {
  Axes places;
  call.require(extent > 0, "an empty axis cannot be padded with its values");
  for (int64_t i = -low; i < extent + high; ++i) {
    int64_t place = i;
    if (mode == "edge") place = std::clamp<int64_t>(i, 0, extent - 1);
    else if (mode == "wrap") place = ((i % extent) + extent) % extent;
    else if (extent == 1) place = 0;
    else {  // reflect
      const int64_t period = 2 * (extent - 1);
      place = ((i % period) + period) % period;
      if (place >= extent) place = period - place;
    }
    places.push_back(place);
  }
  return places;
}

Tensor cut(const Tensor& x, int64_t axis, int64_t low, int64_t high) {
  return slice(x, axis, std::max<int64_t>(-low, 0), x.dim(axis) - std::max<int64_t>(-high, 0));
}

Results pad_operator(Call& call) {
  Tensor x = call.tensor(0);
  const std::string mode = call.text("mode", "constant");
  Axes pads, axes(static_cast<size_t>(x.rank()));
  std::iota(axes.begin(), axes.end(), int64_t{0});
  Tensor fill;
  if (call.version() < 11) {
    pads = call.attribute("pads") ? call.integers("pads") : call.integers("paddings");
    fill = constant(call.number("value", 0), x.dtype());
  } else {
    pads = call.integers(1);
    fill = call.has(2) ? reshape(call.tensor(2), {}) : constant(0, x.dtype());
    if (call.has(3)) axes = call.axes(call.integers(3), x.rank());
  }
  call.require(pads.size() == 2 * axes.size(), "pads must have two numbers for each axis");
  Axes low(static_cast<size_t>(x.rank()), 0), high = low;
  for (size_t i = 0; i < axes.size(); ++i) {
    const auto axis = static_cast<size_t>(axes[i]);
    low[axis] = pads[i], high[axis] = pads[i + axes.size()];
    const int64_t extent = x.shape()[axis], far = int64_t{1} << 40;
    call.require(low[axis] < far && high[axis] < far && low[axis] >= -extent && high[axis] >= -extent &&
                     extent + low[axis] + high[axis] >= 0,
                 "pads do not fit its input");
  }
  call.require(mode == "constant" || mode == "edge" || mode == "reflect" || mode == "wrap",
               "mode must be constant, edge, reflect or wrap");
  // What negative pads take away is gone before the rest is padded with its values.
  for (int64_t axis = 0; axis < x.rank(); ++axis) {
    int64_t &before = low[static_cast<size_t>(axis)], &behind = high[static_cast<size_t>(axis)];
    x = cut(x, axis, before, behind);
    before = std::max<int64_t>(before, 0), behind = std::max<int64_t>(behind, 0);
    if (mode == "constant" || (before == 0 && behind == 0)) continue;
    call.require(before + behind + x.dim(axis) < int64_t{1} << 24, "pads are too large");
    x = gather(x, integers(sources(call, mode, x.dim(axis), before, behind)), axis);
    before = behind = 0;
  }
  if (mode != "constant") return {{call.type(0), x}};
  const bool nothing = std::all_of(low.begin(), low.end(), [](int64_t n) { return n == 0; }) &&
                       std::all_of(high.begin(), high.end(), [](int64_t n) { return n == 0; });
  if (nothing) return {{call.type(0), x}};
  // The value may be known only when the graph runs: a mask says where it stands. Zero, the common one, needs none.
  if (call.run().host_values().source_of(fill) == HostValues::Source::kConstants && call.number_of(fill) == 0)
    return {{call.type(0), pad(x, low, high)}};
  const Tensor inside = pad(broadcast_to(constant(1, DType::kBool), x.shape()), low, high);
  return {{call.type(0), select(inside, pad(x, low, high), fill)}};
}

// ---- blocks of images

Results depth_to_space(Call& call) {
  const Tensor& x = call.tensor(0);
  const int64_t block = call.integer("blocksize");
  call.require(x.rank() == 4 && block > 0 && x.dim(1) % (block * block) == 0, "the blocks do not fit its input");
  const int64_t N = x.dim(0), C = x.dim(1) / (block * block), H = x.dim(2), W = x.dim(3);
  const bool depth_first = call.text("mode", "DCR") == "DCR";
  const Tensor parts = depth_first ? permute(reshape(x, {N, block, block, C, H, W}), {0, 3, 4, 1, 5, 2})
                                   : permute(reshape(x, {N, C, block, block, H, W}), {0, 1, 4, 2, 5, 3});
  return {{call.type(0), reshape(parts, {N, C, H * block, W * block})}};
}

Results space_to_depth(Call& call) {
  const Tensor& x = call.tensor(0);
  const int64_t block = call.integer("blocksize");
  call.require(x.rank() == 4 && block > 0 && x.dim(2) % block == 0 && x.dim(3) % block == 0,
               "the blocks do not fit its input");
  const int64_t N = x.dim(0), C = x.dim(1), H = x.dim(2) / block, W = x.dim(3) / block;
  const Tensor split = reshape(x, {N, C, H, block, W, block});
  // The channel stands before or behind the place within the block.
  const bool depth_first = call.text("mode", "DCR") == "DCR";
  const Tensor parts = permute(split, depth_first ? Axes{0, 3, 5, 1, 2, 4} : Axes{0, 1, 3, 5, 2, 4});
  return {{call.type(0), reshape(parts, {N, C * block * block, H, W})}};
}

Results trilu(Call& call) {
  const Tensor& x = call.tensor(0);
  call.require(x.rank() >= 2, "expected a matrix");
  const int64_t k = call.has(1) ? call.integer_of(call.tensor(1)) : 0;
  const Shape matrix{x.dim(-2), x.dim(-1)};
  const Tensor row = iota(matrix, 0), column = iota(matrix, 1);
  const Tensor distance = sub(column, row);
  const Tensor kept = call.integer("upper", 1) ? greater_equal(distance, integer(k)) : less_equal(distance, integer(k));
  return {{call.type(0), select(kept, x, constant(0, x.dtype()))}};
}

Results reverse_sequence(Call& call) {
  const Tensor& x = call.tensor(0);
  const int64_t batch = call.axis(call.integer("batch_axis", 1), x.rank()),
                time = call.axis(call.integer("time_axis", 0), x.rank());
  call.require(batch != time, "batch_axis and time_axis are the same");
  // Place t of a row of n comes from n - 1 - t, beyond n from itself.
  Shape lengths_shape(static_cast<size_t>(x.rank()), 1);
  lengths_shape[static_cast<size_t>(batch)] = x.dim(batch);
  const Tensor lengths = reshape(call.tensor(1), lengths_shape);
  const Tensor at = iota(x.shape(), time);
  const Tensor from = select(less(at, lengths), sub(sub(lengths, integer(1)), at), at);
  return {{call.type(0), take_along_axis(x, from, time)}};
}

Results center_crop_pad(Call& call) {
  Tensor x = call.tensor(0);
  const Axes wanted = call.integers(1);
  Axes axes(wanted.size());
  std::iota(axes.begin(), axes.end(), int64_t{0});
  if (call.attribute("axes")) axes = call.axes(call.integers("axes"), x.rank());
  call.require(axes.size() == wanted.size() && static_cast<int64_t>(axes.size()) <= x.rank(),
               "the shape must have a number for each axis");
  Axes low(static_cast<size_t>(x.rank()), 0), high = low;
  for (size_t i = 0; i < axes.size(); ++i) {
    const int64_t extent = x.dim(axes[i]);
    call.require(wanted[i] >= 0 && wanted[i] < int64_t{1} << 40, "the shape is impossible");
    if (wanted[i] <= extent) {
      const int64_t start = (extent - wanted[i]) / 2;
      x = slice(x, axes[i], start, start + wanted[i]);
    } else {
      low[static_cast<size_t>(axes[i])] = (wanted[i] - extent) / 2;
      high[static_cast<size_t>(axes[i])] = wanted[i] - extent - (wanted[i] - extent) / 2;
    }
  }
  return {{call.type(0), pad(x, low, high)}};
}

}  // namespace

const RegisterOperators kMovement = {{"Transpose", transpose_operator},
                                     {"Concat", concat},
                                     {"Slice", slice_operator},
                                     {"Split", split},
                                     {"Tile", tile},
                                     {"Pad", pad_operator},
                                     {"DepthToSpace", depth_to_space},
                                     {"SpaceToDepth", space_to_depth},
                                     {"Trilu", trilu, 14},
                                     {"ReverseSequence", reverse_sequence, 10},
                                     {"CenterCropPad", center_crop_pad, 18}};

}  // namespace transom::onnx
