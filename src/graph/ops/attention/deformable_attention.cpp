// SPDX-License-Identifier: Apache-2.0
// deformable_attention: weighted sums of what a few places of several maps hold. A composite of gathers; its gradient
// goes through them.
#include "graph/ops/attention/deformable_attention.h"

#include "graph/ops/attention/attention_parts.h"
#include "graph/ops/rules.h"

namespace transom {
namespace {

// What a query looks at: the attributes, as numbers of each of its places.
struct SampledMaps {
  Axes heights, widths;
  int64_t points;
  bool nearest;

  explicit SampledMaps(const Attributes& attributes)
      : heights(attributes.get_ints("heights")),
        widths(attributes.get_ints("widths")),
        points(attributes.get_int("points")),
        nearest(attributes.get_int("nearest") != 0) {}

  int64_t places() const { return static_cast<int64_t>(heights.size()) * points; }
  Axes starts() const {
    Axes result;
    int64_t start = 0;
    for (size_t i = 0; i < heights.size(); ++i) {
      result.push_back(start);
      start += heights[i] * widths[i];
    }
    return result;
  }
  // The number of a map for each place on it, of `shape` [B, Q, H, places].
  Tensor of_places(const Axes& numbers, DType dtype, const Shape& shape) const {
    std::vector<Tensor> parts;
    for (const int64_t number : numbers) parts.push_back(full({points}, static_cast<double>(number), dtype));
    return broadcast_to(concatenate(parts, 0), shape);
  }
};

// One axis of the places: the place below each, and how far beyond it the place is. Both are finite whatever comes in.
struct SampledAxis {
  Tensor below, beyond;
  SampledAxis(const Tensor& parts, const Tensor& extents) {
    const Tensor at = parts * extents - 0.5;
    const Tensor inside = minimum(maximum(at, full(at.shape(), -2, at.dtype())), extents + 1.0);
    below = floor(inside);
    beyond = inside - below;
  }
};

// Adds up the values that taps find: rows of the table [B S H, d].
class SampledSum {
 public:
  SampledSum(const Tensor& values, const SampledMaps& maps, const Shape& shape)
      : heads_(values.dim(2)),
        table_(reshape(values, {values.dim(0) * values.dim(1) * heads_, values.dim(3)})),
        first_(iota(shape, 0) * static_cast<double>(values.dim(1)) +
               maps.of_places(maps.starts(), DType::kInt64, shape)),
        head_(iota(shape, 2)),
        widths_(maps.of_places(maps.widths, DType::kInt64, shape)),
        last_row_(maps.of_places(maps.heights, DType::kInt64, shape) - 1.0),
        last_column_(widths_ - 1.0) {}

  // Rows and columns of maps, moved inside of these; weights of the type that sums.
  void add(const Tensor& rows, const Tensor& columns, const Tensor& weights) {
    const Tensor row = within(rows, last_row_), column = within(columns, last_column_);
    const Tensor place = (first_ + row * widths_ + column) * static_cast<double>(heads_) + head_;
    const Tensor part = reduce_sum(widened(gather(table_, place, 0)) * unsqueeze(weights, 4), {3});
    sum_ = sum_.defined() ? sum_ + part : part;
  }
  const Tensor& sum() const { return sum_; }

 private:
  static Tensor within(const Tensor& at, const Tensor& last) {
    return minimum(maximum(cast(at, DType::kInt64), full(at.shape(), 0, DType::kInt64)), last);
  }

  int64_t heads_;
  Tensor table_, first_, head_, widths_, last_row_, last_column_, sum_;
};

Tensor visible(const Tensor& at, const Tensor& extents) {
  return logical_and(greater_equal(at, full(at.shape(), 0, at.dtype())), less(at, extents));
}

const Operation kDeformableAttention = {
    .name = "deformable_attention",
    .kind = OperationKind::kComposite,
    .documentation =
        "(values [B, S, H, d], places [B, Q, H, maps points, 2], weights [B, Q, H, maps points]): the weighted sums of "
        "what maps of `heights` and `widths`, which lie behind each other, hold at (x, y), bilinearly or `nearest`.",
    .gradient_jumps = true,
    .category = Category::kAttention,
    .infer = [](const Inference& in) -> std::vector<Type> {
      expect_inputs(in, 3);
      expect_floating(in, 0);
      const SampledMaps maps(in.attributes);
      constexpr int64_t kMost = int64_t{1} << 24;
      check(in, maps.heights.size() == maps.widths.size() && !maps.heights.empty(),
            "expected a height and a width for each map");
      expect_between(in, maps.heights, 1, kMost, "height");
      expect_between(in, maps.widths, 1, kMost, "width");
      expect_between(in, {maps.points}, 1, 1 << 16, "points");
      int64_t places = 0;
      for (size_t i = 0; i < maps.heights.size(); ++i) places += maps.heights[i] * maps.widths[i];
      check(in, in.rank(0) == 4 && in.shape(0)[1] == places, "expected values [B, {}, H, d], found {}", places,
            in.shape(0));
      check(in, in.rank(2) == 4, "expected weights [B, Q, H, {}], found {}", maps.places(), in.shape(2));
      const Shape weights{in.shape(0)[0], in.shape(2)[1], in.shape(0)[2], maps.places()};
      Shape points = weights;
      points.push_back(2);
      const DType wide = wide_type(in.dtype(0));
      check(in, in.inputs[2] == Type{wide, weights}, "expected weights of {}, found {}", Type{wide, weights},
            in.inputs[2]);
      check(in, in.inputs[1] == Type{wide, points}, "expected places of {}, found {}", Type{wide, points},
            in.inputs[1]);
      return {{in.dtype(0), {weights[0], weights[1], weights[2], in.shape(0)[3]}}};
    },
    .decompose = [](std::span<const Tensor> in, const Attributes& attributes) -> std::vector<Tensor> {
      const SampledMaps maps(attributes);
      const Tensor& weights = in[2];
      const Shape& shape = weights.shape();
      const Tensor heights = maps.of_places(maps.heights, weights.dtype(), shape),
                   widths = maps.of_places(maps.widths, weights.dtype(), shape);
      const Tensor across = squeeze(slice(in[1], 4, 0, 1), 4), down = squeeze(slice(in[1], 4, 1, 2), 4);
      const SampledAxis y(down, heights), x(across, widths);
      SampledSum sum(in[0], maps, shape);
      if (maps.nearest) {
        sum.add(floor(y.below + y.beyond + 1.0), floor(x.below + x.beyond + 1.0), weights);
        return {cast(sum.sum(), in[0].dtype())};
      }
      for (const double below : {0.0, 1.0})
        for (const double right : {0.0, 1.0}) {
          const Tensor row = y.below + below, column = x.below + right;
          const Tensor share =
              (below > 0 ? y.beyond : 1.0 - y.beyond) * (right > 0 ? x.beyond : 1.0 - x.beyond) * weights;
          const Tensor seen = logical_and(visible(row, heights), visible(column, widths));
          sum.add(row, column, select(seen, share, full(shape, 0, share.dtype())));
        }
      return {cast(sum.sum(), in[0].dtype())};
    },
    .samples = []() -> std::vector<Sample> {
      std::vector<Sample> samples;
      const auto add = [&](DType dtype, int64_t B, int64_t Q, int64_t H, int64_t d, const Axes& heights,
                           const Axes& widths, int64_t points, bool nearest) {
        int64_t S = 0;
        for (size_t i = 0; i < heights.size(); ++i) S += heights[i] * widths[i];
        const int64_t places = static_cast<int64_t>(heights.size()) * points;
        samples.push_back(
            {{{dtype, {B, S, H, d}}, {DType::kFloat32, {B, Q, H, places, 2}}, {DType::kFloat32, {B, Q, H, places}}},
             {{"heights", heights}, {"widths", widths}, {"points", points}, {"nearest", static_cast<int64_t>(nearest)}},
             -0.4,
             1.3});
      };
      for (const DType dtype : {DType::kFloat32, DType::kBFloat16}) {
        add(dtype, 2, 3, 2, 4, {3, 2}, {4, 1}, 2, false);
        add(dtype, 1, 2, 1, 3, {1}, {1}, 3, false);
        add(dtype, 1, 5, 3, 2, {4, 2, 1}, {5, 3, 2}, 1, false);
        add(dtype, 2, 2, 2, 3, {3, 2}, {2, 2}, 2, true);
        add(dtype, 1, 0, 2, 3, {3}, {2}, 2, false);
      }
      return samples;
    }};

}  // namespace

const RegisterOperations kRegisteredDeformableAttention{&kDeformableAttention};

Tensor deformable_attention(const Tensor& values, const Tensor& places, const Tensor& weights,
                            const DeformableMaps& maps) {
  return make_tensor(kDeformableAttention, {values, places, weights},
                     {{"heights", maps.heights},
                      {"widths", maps.widths},
                      {"points", maps.points},
                      {"nearest", static_cast<int64_t>(maps.nearest)}});
}

}  // namespace transom
