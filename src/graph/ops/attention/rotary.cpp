// SPDX-License-Identifier: Apache-2.0
// Rotary position embedding (Su et al., 2021), the halves of a head being its pairs: a composite that a device may run
// as one kernel.
#include "graph/ops/rules.h"

namespace transom {
namespace {

using Tensors = std::vector<Tensor>;

struct Halves {
  Tensor first, second;
};

Halves halves_of(const Tensor& x, int64_t pairs) { return {slice(x, 3, 0, pairs), slice(x, 3, pairs, 2 * pairs)}; }

// The gradient of angles that heads share.
Tensor summed_to_shape(const Tensor& x, const Shape& shape) {
  Axes axes;
  for (int64_t axis = 0; axis < x.rank(); ++axis)
    if (shape[static_cast<size_t>(axis)] == 1 && x.dim(axis) != 1) axes.push_back(axis);
  return axes.empty() ? x : reduce_sum(x, axes, true);
}

const Operation kRotary = {
    .name = "rotary",
    .kind = OperationKind::kComposite,
    .documentation =
        "(x [B, T, H, d], cosine, sine [B, T, H, p], each of the first three 1 or as in x): the first p numbers of a "
        "head and the p after them turn as pairs, the rest stays.",
    .category = Category::kElements,
    .infer = [](const Inference& in) -> std::vector<Type> {
      expect_inputs(in, 3);
      expect_floating(in, 0);
      expect_same_types(in, 0, 1);
      expect_same_types(in, 0, 2);
      expect_same_shape(in, 1, 2);
      check(in, in.rank(0) == 4 && in.rank(1) == 4, "expected four axes");
      const Shape &x = in.shape(0), &angles = in.shape(1);
      bool fits = 2 * angles[3] <= x[3];
      for (size_t i = 0; i < 3; ++i) fits = fits && (angles[i] == x[i] || angles[i] == 1);
      check(in, fits, "angles of {} do not fit heads of {}", angles, x);
      return {in.inputs[0]};
    },
    .decompose = [](std::span<const Tensor> in, const Attributes&) -> Tensors {
      const int64_t pairs = in[1].dim(3), d = in[0].dim(3);
      const Tensor &cosine = in[1], &sine = in[2];
      const Halves x = halves_of(in[0], pairs);
      Tensors parts{x.first * cosine - x.second * sine, x.second * cosine + x.first * sine};
      if (2 * pairs < d) parts.push_back(slice(in[0], 3, 2 * pairs, d));
      return {concatenate(parts, 3)};
    },
    .gradient = [](const GradientRequest& request) -> Tensors {
      const Tensor &cosine = request.inputs[1], &sine = request.inputs[2];
      Tensors result(3);
      if (request.wanted(0)) result[0] = make_tensor(kRotary, {request.cotangents[0], cosine, -sine}, {});
      if (!request.wanted(1) && !request.wanted(2)) return result;
      const Halves x = halves_of(request.inputs[0], cosine.dim(3)),
                   dy = halves_of(request.cotangents[0], cosine.dim(3));
      if (request.wanted(1)) result[1] = summed_to_shape(dy.first * x.first + dy.second * x.second, cosine.shape());
      if (request.wanted(2)) result[2] = summed_to_shape(dy.second * x.first - dy.first * x.second, sine.shape());
      return result;
    },
    .samples = []() -> std::vector<Sample> {
      std::vector<Sample> samples;
      for (const DType dtype : {DType::kFloat32, DType::kBFloat16})
        for (const auto& [x, angles] : {std::pair<Shape, Shape>{{2, 3, 2, 8}, {2, 3, 1, 4}},
                                        {{1, 5, 3, 10}, {1, 5, 1, 4}},
                                        {{2, 3, 2, 6}, {1, 3, 1, 3}}})
          samples.push_back({{{dtype, x}, {dtype, angles}, {dtype, angles}}, {}});
      return samples;
    }};

}  // namespace

const RegisterOperations kRegisteredRotary{&kRotary};

}  // namespace transom
