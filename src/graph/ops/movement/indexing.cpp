// SPDX-License-Identifier: Apache-2.0
// Reading and writing at places that are known only at run time.
#include <algorithm>

#include "graph/ops/rules.h"

namespace transom {
namespace {

using Gradients = std::vector<Tensor>;

// gather and scatter_add see x as [outer, n, inner] around `axis`, and the indices as one list.
struct Lines {
  int64_t outer = 1, length, inner = 1, count;

  Lines(const Shape& shape, const Shape& indices, int64_t axis)
      : length(shape[static_cast<size_t>(axis)]), count(elements(indices)) {
    for (size_t i = 0; i < shape.size(); ++i) {
      if (static_cast<int64_t>(i) < axis) outer *= shape[i];
      if (static_cast<int64_t>(i) > axis) inner *= shape[i];
    }
  }

  // visit(place in x, place in the gathered tensor)
  template <typename Visit>
  void for_each(const Array& indices, Visit&& visit) const {
    for (int64_t o = 0; o < outer; ++o)
      for (int64_t i = 0; i < count; ++i) {
        const int64_t index = indices.integer[static_cast<size_t>(i)];
        if (index < 0 || index >= length) fail("gather: index {} at place {} is outside [0, {})", index, i, length);
        for (int64_t j = 0; j < inner; ++j) visit((o * length + index) * inner + j, (o * count + i) * inner + j);
      }
  }
};

Shape gathered_shape(const Shape& x, const Shape& indices, int64_t axis) {
  Shape shape(x.begin(), x.begin() + axis);
  shape.insert(shape.end(), indices.begin(), indices.end());
  shape.insert(shape.end(), x.begin() + axis + 1, x.end());
  return shape;
}

void expect_indices(const Inference& in, size_t i) {
  check(in, in.dtype(i) == DType::kInt64 || in.dtype(i) == DType::kInt32, "expected i32 or i64 indices, found {}",
        in.inputs[i]);
}

const Operation kGather = {
    .name = "gather",
    .documentation = "The slices of x along `axis` that the indices name.",
    .moves_only = true,
    .bytes = bytes_of_taken,
    .infer = [](const Inference& in) -> std::vector<Type> {
      expect_inputs(in, 2);
      const int64_t axis = in.attributes.get_int("axis");
      expect_axis(in, axis, in.rank(0));
      expect_indices(in, 1);
      return {{in.dtype(0), gathered_shape(in.shape(0), in.shape(1), axis)}};
    },
    .evaluate =
        [](std::span<const Array> in, const Attributes& attributes, std::span<Array> out) {
          const Lines lines(in[0].type.shape, in[1].type.shape, attributes.get_int("axis"));
          lines.for_each(in[1], [&](int64_t x, int64_t y) {
            if (out[0].floating()) out[0].real[static_cast<size_t>(y)] = in[0].real[static_cast<size_t>(x)];
            else out[0].integer[static_cast<size_t>(y)] = in[0].integer[static_cast<size_t>(x)];
          });
        },
    .gradient = [](const GradientRequest& request) -> Gradients {
      const Tensor& x = request.inputs[0];
      return {scatter_add(zeros(x.shape(), x.dtype()), request.inputs[1], request.cotangents[0],
                          request.attributes.get_int("axis")),
              Tensor()};
    },
    .samples = []() -> std::vector<Sample> {
      std::vector<Sample> samples;
      for (const DType dtype : {DType::kFloat32, DType::kBFloat16, DType::kInt64})
        for (const DType index : {DType::kInt64, DType::kInt32}) {
          samples.push_back({{{dtype, {7, 5}}, {index, {2, 3}}}, {{"axis", int64_t{0}}}, -2, 2, 7});
          samples.push_back({{{dtype, {3, 7, 2}}, {index, {4}}}, {{"axis", int64_t{1}}}, -2, 2, 7});
          samples.push_back({{{dtype, {9}}, {index, {}}}, {{"axis", int64_t{0}}}, -2, 2, 9});
          samples.push_back({{{dtype, {9, 2}}, {index, {0}}}, {{"axis", int64_t{0}}}, -2, 2, 9});
        }
      return samples;
    }};

const Operation kScatterAdd = {
    .name = "scatter_add",
    .documentation = "x with updates added at the indices along `axis`; repeated indices add up.",
    .category = Category::kMovement,
    .error = kSumError,
    .infer = [](const Inference& in) -> std::vector<Type> {
      expect_inputs(in, 3);
      const int64_t axis = in.attributes.get_int("axis");
      expect_axis(in, axis, in.rank(0));
      expect_indices(in, 1);
      expect_same_types(in, 0, 2);
      const Shape expected = gathered_shape(in.shape(0), in.shape(1), axis);
      check(in, in.shape(2) == expected, "expected updates of shape {}, found {}", expected, in.shape(2));
      return {in.inputs[0]};
    },
    .evaluate =
        [](std::span<const Array> in, const Attributes& attributes, std::span<Array> out) {
          out[0].real = in[0].real;
          out[0].integer = in[0].integer;
          const Lines lines(in[0].type.shape, in[1].type.shape, attributes.get_int("axis"));
          lines.for_each(in[1], [&](int64_t x, int64_t y) {
            if (out[0].floating()) out[0].real[static_cast<size_t>(x)] += in[2].real[static_cast<size_t>(y)];
            else
              out[0].integer[static_cast<size_t>(x)] =
                  wrapping_add(out[0].integer[static_cast<size_t>(x)], in[2].integer[static_cast<size_t>(y)]);
          });
        },
    .gradient = [](const GradientRequest& request) -> Gradients {
      const Tensor& dy = request.cotangents[0];
      return {dy, Tensor(),
              request.wanted(2) ? gather(dy, request.inputs[1], request.attributes.get_int("axis")) : Tensor()};
    },
    .samples = []() -> std::vector<Sample> {
      std::vector<Sample> samples;
      for (const DType dtype : {DType::kFloat32, DType::kInt64}) {
        samples.push_back(
            {{{dtype, {7, 5}}, {DType::kInt64, {2, 3}}, {dtype, {2, 3, 5}}}, {{"axis", int64_t{0}}}, -2, 2, 7});
        samples.push_back(
            {{{dtype, {3, 4, 2}}, {DType::kInt32, {9}}, {dtype, {3, 9, 2}}}, {{"axis", int64_t{1}}}, -2, 2, 4});
        samples.push_back({{{dtype, {9}}, {DType::kInt64, {0}}, {dtype, {0}}}, {{"axis", int64_t{0}}}, -2, 2, 9});
      }
      return samples;
    }};

// Where a window of `sizes` begins, moved inwards until it fits.
Axes clamped_starts(const Array& starts, const Shape& shape, const Shape& sizes) {
  Axes result;
  for (size_t i = 0; i < shape.size(); ++i)
    result.push_back(std::clamp<int64_t>(starts.integer[i], 0, shape[i] - sizes[i]));
  return result;
}

void expect_starts(const Inference& in, size_t i) {
  check(in, in.inputs[i] == Type{DType::kInt64, {in.rank(0)}}, "expected starts of type i64[{}], found {}", in.rank(0),
        in.inputs[i]);
}
void expect_window(const Inference& in, const Shape& sizes) {
  bool fits = sizes.size() == in.shape(0).size();
  for (size_t i = 0; fits && i < sizes.size(); ++i) fits = sizes[i] >= 0 && sizes[i] <= in.shape(0)[i];
  check(in, fits, "a window of {} does not fit {}", sizes, in.shape(0));
}

const Operation kDynamicSlice = {
    .name = "dynamic_slice",
    .documentation = "The window of `sizes` that begins at starts (i64, one an axis), moved inwards until it fits.",
    .category = Category::kMovement,
    .bytes = bytes_of_taken,
    .infer = [](const Inference& in) -> std::vector<Type> {
      expect_inputs(in, 2);
      expect_starts(in, 1);
      expect_window(in, in.attributes.get_ints("sizes"));
      return {{in.dtype(0), in.attributes.get_ints("sizes")}};
    },
    .evaluate =
        [](std::span<const Array> in, const Attributes&, std::span<Array> out) {
          const Axes strides = strides_of(in[0].type.shape);
          const int64_t start = offset_of(clamped_starts(in[1], in[0].type.shape, out[0].type.shape), strides);
          size_t place = 0;
          for_each_index(out[0].type.shape, [&](const Axes& index) {
            const auto from = static_cast<size_t>(start + offset_of(index, strides));
            if (out[0].floating()) out[0].real[place++] = in[0].real[from];
            else out[0].integer[place++] = in[0].integer[from];
          });
        },
    .gradient = [](const GradientRequest& request) -> Gradients {
      const Tensor& x = request.inputs[0];
      return {dynamic_update_slice(zeros(x.shape(), x.dtype()), request.cotangents[0], request.inputs[1]), Tensor()};
    },
    .samples = []() -> std::vector<Sample> {
      return {{{{DType::kFloat32, {5, 7}}, {DType::kInt64, {2}}}, {{"sizes", Shape{2, 3}}}, -2, 2, 8},
              {{{DType::kInt64, {6}}, {DType::kInt64, {1}}}, {{"sizes", Shape{4}}}, -2, 2, 8}};
    }};

const Operation kDynamicUpdateSlice = {
    .name = "dynamic_update_slice",
    .documentation = "x with the update written at starts (i64, one an axis), moved inwards until it fits.",
    .in_place = 0,
    .category = Category::kMovement,
    .infer = [](const Inference& in) -> std::vector<Type> {
      expect_inputs(in, 3);
      expect_same_types(in, 0, 1);
      expect_starts(in, 2);
      expect_window(in, in.shape(1));
      return {in.inputs[0]};
    },
    .evaluate =
        [](std::span<const Array> in, const Attributes&, std::span<Array> out) {
          out[0].real = in[0].real;
          out[0].integer = in[0].integer;
          const Axes strides = strides_of(in[0].type.shape);
          const int64_t start = offset_of(clamped_starts(in[2], in[0].type.shape, in[1].type.shape), strides);
          size_t place = 0;
          for_each_index(in[1].type.shape, [&](const Axes& index) {
            const auto to = static_cast<size_t>(start + offset_of(index, strides));
            if (out[0].floating()) out[0].real[to] = in[1].real[place++];
            else out[0].integer[to] = in[1].integer[place++];
          });
        },
    .gradient = [](const GradientRequest& request) -> Gradients {
      const Tensor &dy = request.cotangents[0], &update = request.inputs[1], &starts = request.inputs[2];
      return {dynamic_update_slice(dy, zeros(update.shape(), update.dtype()), starts),
              request.wanted(1) ? dynamic_slice(dy, starts, update.shape()) : Tensor(), Tensor()};
    },
    .samples = []() -> std::vector<Sample> {
      return {{{{DType::kFloat32, {5, 7}}, {DType::kFloat32, {2, 3}}, {DType::kInt64, {2}}}, {}, -2, 2, 8},
              {{{DType::kInt64, {6}}, {DType::kInt64, {6}}, {DType::kInt64, {1}}}, {}, -2, 2, 8}};
    }};

}  // namespace

namespace op {
const Operation& gather = kGather;
}  // namespace op

const RegisterOperations kRegisteredIndexing{&kGather, &kScatterAdd, &kDynamicSlice, &kDynamicUpdateSlice};

Tensor gather(const Tensor& x, const Tensor& indices, int64_t axis) {
  return make_tensor(kGather, {x, indices}, {{"axis", normal_axis(axis, x.rank(), "gather")}});
}

Tensor scatter_add(const Tensor& x, const Tensor& indices, const Tensor& updates, int64_t axis) {
  return make_tensor(kScatterAdd, {x, indices, updates}, {{"axis", normal_axis(axis, x.rank(), "scatter_add")}});
}

Tensor take_along_axis(const Tensor& x, const Tensor& indices, int64_t axis) {
  axis = normal_axis(axis, x.rank(), "take_along_axis");
  bool fits = indices.rank() == x.rank();
  for (int64_t other = 0; fits && other < x.rank(); ++other) fits = other == axis || indices.dim(other) <= x.dim(other);
  if (!fits)
    fail("{}take_along_axis: indices of {} do not fit {} beside axis {}", scope_prefix(), to_string(indices.shape()),
         to_string(x.shape()), axis);
  // The place in the flat x: along `axis` what the index says, along the others the position itself.
  const Axes strides = strides_of(x.shape());
  Tensor places = cast(indices, DType::kInt64) * static_cast<double>(strides[static_cast<size_t>(axis)]);
  for (int64_t other = 0; other < x.rank(); ++other)
    if (other != axis)
      places = places + iota(indices.shape(), other) * static_cast<double>(strides[static_cast<size_t>(other)]);
  return gather(reshape(x, {x.size()}), places, 0);
}

Tensor dynamic_slice(const Tensor& x, const Tensor& starts, const Shape& sizes) {
  return make_tensor(kDynamicSlice, {x, starts}, {{"sizes", sizes}});
}

Tensor dynamic_update_slice(const Tensor& x, const Tensor& update, const Tensor& starts) {
  return make_tensor(kDynamicUpdateSlice, {x, update, starts});
}

}  // namespace transom
