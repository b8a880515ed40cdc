// SPDX-License-Identifier: Apache-2.0
// Sorting along an axis, and the largest few.
#include <algorithm>

#include "graph/ops/rules.h"

namespace transom {
namespace {

// Whether the element at x comes before that at y; both are equal for ties, so that a stable sort keeps them in order.
bool before(const Array& in, size_t x, size_t y, bool descending, bool nan_last) {
  if (!in.floating()) return descending ? in.integer[x] > in.integer[y] : in.integer[x] < in.integer[y];
  const double a = in.real[x], b = in.real[y];
  if (std::isnan(a) || std::isnan(b))
    return nan_last ? !std::isnan(a) && std::isnan(b) : std::isnan(a) && !std::isnan(b);
  return descending ? a > b : a < b;
}

// Sorts every line along `axis`, NaN at one end; keeps the first `keep` of each.
void order_lines(const Array& in, int64_t axis, bool descending, bool nan_last, int64_t keep, std::span<Array> out) {
  const Shape& shape = in.type.shape;
  const int64_t length = shape[static_cast<size_t>(axis)];
  const Axes in_strides = strides_of(shape), out_strides = strides_of(out[0].type.shape);
  Shape lines = shape;
  lines[static_cast<size_t>(axis)] = 1;
  for_each_index(lines, [&](const Axes& index) {
    const int64_t from = offset_of(index, in_strides), to = offset_of(index, out_strides);
    std::vector<int64_t> places(static_cast<size_t>(length));
    std::iota(places.begin(), places.end(), int64_t{0});
    const auto at = [&](int64_t place) {
      return static_cast<size_t>(from + place * in_strides[static_cast<size_t>(axis)]);
    };
    std::stable_sort(places.begin(), places.end(),
                     [&](int64_t a, int64_t b) { return before(in, at(a), at(b), descending, nan_last); });
    for (int64_t i = 0; i < keep; ++i) {
      const auto goes_to = static_cast<size_t>(to + i * out_strides[static_cast<size_t>(axis)]);
      const int64_t place = places[static_cast<size_t>(i)];
      if (in.floating()) out[0].real[goes_to] = in.real[at(place)];
      else out[0].integer[goes_to] = in.integer[at(place)];
      out[1].integer[goes_to] = place;
    }
  });
}

// The gradient goes back to the places that the values came from.
std::vector<Tensor> ordered_gradient(const GradientRequest& request, int64_t axis) {
  const Tensor &x = request.inputs[0], &places = request.outputs[1], &dy = request.cotangents[0];
  if (!dy.defined()) return {Tensor()};
  // Lines first: [L, n] and [L, k] with the axis last.
  Axes permutation(static_cast<size_t>(x.rank()));
  std::iota(permutation.begin(), permutation.end(), int64_t{0});
  std::swap(permutation[static_cast<size_t>(axis)], permutation.back());
  const Tensor line_places = permute(places, permutation), line_dy = permute(dy, permutation);
  Shape shape = x.shape();
  std::swap(shape[static_cast<size_t>(axis)], shape.back());
  const int64_t length = shape.back(), kept = line_dy.dim(-1), lines = kept == 0 ? 0 : line_dy.size() / kept;
  const Tensor flat = iota({lines, kept}, 0) * static_cast<double>(length) + reshape(line_places, {lines, kept});
  const Tensor dx = scatter_add(zeros({elements(shape)}, x.dtype()), reshape(flat, {lines * kept}),
                                reshape(line_dy, {lines * kept}), 0);
  return {permute(reshape(dx, shape), permutation)};
}

const Operation kSort = {
    .name = "sort",
    .documentation = "(values, places) along `axis`, rising or `descending`; stable; NaN last.",
    .category = Category::kRows,
    .infer = [](const Inference& in) -> std::vector<Type> {
      expect_inputs(in, 1);
      expect_axis(in, in.attributes.get_int("axis"), in.rank(0));
      return {in.inputs[0], {DType::kInt64, in.shape(0)}};
    },
    .evaluate =
        [](std::span<const Array> in, const Attributes& attributes, std::span<Array> out) {
          const int64_t axis = attributes.get_int("axis");
          order_lines(in[0], axis, attributes.get_int("descending"), true, in[0].type.shape[static_cast<size_t>(axis)],
                      out);
        },
    .gradient =
        [](const GradientRequest& request) { return ordered_gradient(request, request.attributes.get_int("axis")); },
    .samples = []() -> std::vector<Sample> {
      std::vector<Sample> samples;
      for (const DType dtype : {DType::kFloat32, DType::kInt64})
        for (const int64_t axis : {0, 1})
          for (const int64_t descending : {0, 1})
            samples.push_back({{{dtype, {5, 13}}}, {{"axis", axis}, {"descending", descending}}, -2, 2, 6});
      return samples;
    }};

const Operation kTopK = {
    .name = "top_k",
    .documentation = "(values, places) of the k largest along the last axis, falling; of equal ones the first.",
    .category = Category::kRows,
    .infer = [](const Inference& in) -> std::vector<Type> {
      expect_inputs(in, 1);
      const int64_t k = in.attributes.get_int("k");
      check(in, in.rank(0) > 0, "expected at least one axis");
      check(in, k >= 0 && k <= in.shape(0).back(), "k = {} does not fit {}", k, in.shape(0));
      Shape shape = in.shape(0);
      shape.back() = k;
      return {{in.dtype(0), shape}, {DType::kInt64, shape}};
    },
    .evaluate =
        [](std::span<const Array> in, const Attributes& attributes, std::span<Array> out) {
          order_lines(in[0], static_cast<int64_t>(in[0].type.shape.size()) - 1, true, false, attributes.get_int("k"),
                      out);
        },
    .gradient = [](const GradientRequest& request) { return ordered_gradient(request, request.inputs[0].rank() - 1); },
    .samples = []() -> std::vector<Sample> {
      std::vector<Sample> samples;
      for (const DType dtype : {DType::kFloat32, DType::kBFloat16, DType::kInt64})
        for (const int64_t k : {1, 3, 17}) samples.push_back({{{dtype, {4, 17}}}, {{"k", k}}, -2, 2, 6});
      return samples;
    }};

}  // namespace

const RegisterOperations kRegisteredOrdering{&kSort, &kTopK};

std::pair<Tensor, Tensor> sort(const Tensor& x, int64_t axis, bool descending) {
  const auto outputs = make_tensors(
      kSort, {x}, {{"axis", normal_axis(axis, x.rank(), "sort")}, {"descending", static_cast<int64_t>(descending)}});
  return {outputs[0], outputs[1]};
}

std::pair<Tensor, Tensor> top_k(const Tensor& x, int64_t k) {
  const auto outputs = make_tensors(kTopK, {x}, {{"k", k}});
  return {outputs[0], outputs[1]};
}

}  // namespace transom
