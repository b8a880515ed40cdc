// SPDX-License-Identifier: Apache-2.0
// Operations that only move elements.
#include <algorithm>

#include "graph/ops/records.h"
#include "graph/ops/rules.h"

namespace transom {
namespace {

using Gradients = std::vector<Tensor>;

// Copies element `from(index)` of the input to each output index.
template <typename From>
void move(const Array& in, Array& out, From&& from) {
  size_t place = 0;
  for_each_index(out.type.shape, [&](const Axes& index) {
    const auto source = static_cast<size_t>(from(index));
    if (out.floating()) out.real[place++] = in.real[source];
    else out.integer[place++] = in.integer[source];
  });
}

// Samples of one attribute set, in the types whose sizes differ.
std::vector<Sample> in_types(const Shape& shape, const Attributes& attributes) {
  std::vector<Sample> samples;
  for (const DType dtype : {DType::kFloat32, DType::kBFloat16, DType::kInt64, DType::kBool})
    samples.push_back({{{dtype, shape}}, attributes});
  return samples;
}
std::vector<Sample> joined(std::initializer_list<std::vector<Sample>> lists) {
  std::vector<Sample> all;
  for (const auto& list : lists) all.insert(all.end(), list.begin(), list.end());
  return all;
}

const Operation kReshape = {
    .name = "reshape",
    .documentation = "The same elements in the same order, in another shape.",
    .moves_only = true,
    .view = true,
    .infer = [](const Inference& in) -> std::vector<Type> {
      expect_inputs(in, 1);
      const Shape& shape = in.attributes.get_ints("shape");
      check(in, elements(shape) == elements(in.shape(0)), "{} has {} elements, {} has {}", in.shape(0),
            elements(in.shape(0)), shape, elements(shape));
      return {{in.dtype(0), shape}};
    },
    .evaluate =
        [](std::span<const Array> in, const Attributes&, std::span<Array> out) {
          out[0].real = in[0].real;
          out[0].integer = in[0].integer;
        },
    .gradient = [](const GradientRequest& request) -> Gradients {
      return {reshape(request.cotangents[0], request.inputs[0].shape())};
    },
    .samples =
        [] {
          return joined({in_types({3, 4}, {{"shape", Shape{2, 6}}}), in_types({1}, {{"shape", Shape{}}}),
                         in_types({0, 3}, {{"shape", Shape{5, 0}}})});
        }};

const Operation kPermute = {
    .name = "permute",
    .documentation = "Output axis i is input axis `permutation`[i].",
    .moves_only = true,
    .infer = [](const Inference& in) -> std::vector<Type> {
      expect_inputs(in, 1);
      const Axes& permutation = in.attributes.get_ints("permutation");
      Axes sorted = permutation;
      std::sort(sorted.begin(), sorted.end());
      bool complete = static_cast<int64_t>(sorted.size()) == in.rank(0);
      for (size_t i = 0; complete && i < sorted.size(); ++i) complete = sorted[i] == static_cast<int64_t>(i);
      check(in, complete, "[{}] is no permutation of the axes of {}", fmt::join(permutation, ", "), in.shape(0));
      Shape shape;
      for (const int64_t axis : permutation) shape.push_back(in.shape(0)[static_cast<size_t>(axis)]);
      return {{in.dtype(0), shape}};
    },
    .evaluate =
        [](std::span<const Array> in, const Attributes& attributes, std::span<Array> out) {
          const Axes strides = strides_of(in[0].type.shape);
          Axes moved;
          for (const int64_t axis : attributes.get_ints("permutation"))
            moved.push_back(strides[static_cast<size_t>(axis)]);
          move(in[0], out[0], [&](const Axes& index) { return offset_of(index, moved); });
        },
    .gradient = [](const GradientRequest& request) -> Gradients {
      const Axes& permutation = request.attributes.get_ints("permutation");
      Axes inverse(permutation.size());
      for (size_t i = 0; i < permutation.size(); ++i)
        inverse[static_cast<size_t>(permutation[i])] = static_cast<int64_t>(i);
      return {permute(request.cotangents[0], inverse)};
    },
    .samples =
        [] {
          return joined({in_types({3, 5}, {{"permutation", Axes{1, 0}}}),
                         in_types({2, 3, 4, 5}, {{"permutation", Axes{0, 2, 1, 3}}}),
                         in_types({2, 3, 4}, {{"permutation", Axes{2, 0, 1}}}), in_types({}, {{"permutation", Axes{}}}),
                         in_types({17, 33}, {{"permutation", Axes{1, 0}}})});
        }};

const Operation kBroadcast = {
    .name = "broadcast",
    .documentation = "Repeats axes of extent 1; the rank stays.",
    .moves_only = true,
    .infer = [](const Inference& in) -> std::vector<Type> {
      expect_inputs(in, 1);
      const Shape& shape = in.attributes.get_ints("shape");
      bool fits = shape.size() == in.shape(0).size();
      for (size_t i = 0; fits && i < shape.size(); ++i) fits = in.shape(0)[i] == 1 || in.shape(0)[i] == shape[i];
      check(in, fits, "{} does not broadcast to {}", in.shape(0), shape);
      return {{in.dtype(0), shape}};
    },
    .evaluate =
        [](std::span<const Array> in, const Attributes&, std::span<Array> out) {
          Axes strides = strides_of(in[0].type.shape);
          for (size_t i = 0; i < strides.size(); ++i)
            if (in[0].type.shape[i] == 1) strides[i] = 0;
          move(in[0], out[0], [&](const Axes& index) { return offset_of(index, strides); });
        },
    .gradient = [](const GradientRequest& request) -> Gradients {
      return {sum_to_shape(request.cotangents[0], request.inputs[0].shape())};
    },
    .samples =
        [] {
          return joined({in_types({1, 5}, {{"shape", Shape{3, 5}}}), in_types({3, 1}, {{"shape", Shape{3, 17}}}),
                         in_types({1, 1, 4}, {{"shape", Shape{2, 3, 4}}}),
                         in_types({2, 1, 4}, {{"shape", Shape{2, 3, 4}}}), in_types({1}, {{"shape", Shape{0}}})});
        }};

const Operation kSlice = {
    .name = "slice",
    .documentation = "From `starts` to `limits` (not included) by `strides`, which are positive.",
    .moves_only = true,
    .bytes = bytes_of_taken,
    .infer = [](const Inference& in) -> std::vector<Type> {
      expect_inputs(in, 1);
      const Axes &starts = in.attributes.get_ints("starts"), &limits = in.attributes.get_ints("limits"),
                 &strides = in.attributes.get_ints("strides");
      const size_t rank = in.shape(0).size();
      check(in, starts.size() == rank && limits.size() == rank && strides.size() == rank,
            "one number an axis is needed");
      Shape shape;
      for (size_t i = 0; i < rank; ++i) {
        expect_between(in, {strides[i]}, 1, int64_t{1} << 62, "stride");
        check(in, starts[i] >= 0 && starts[i] <= limits[i] && limits[i] <= in.shape(0)[i],
              "[{}, {}) by {} does not fit axis {} of {}", starts[i], limits[i], strides[i], i, in.shape(0));
        shape.push_back((limits[i] - starts[i] + strides[i] - 1) / strides[i]);
      }
      return {{in.dtype(0), shape}};
    },
    .evaluate =
        [](std::span<const Array> in, const Attributes& attributes, std::span<Array> out) {
          Axes strides = strides_of(in[0].type.shape);
          const int64_t start = offset_of(attributes.get_ints("starts"), strides);
          for (size_t i = 0; i < strides.size(); ++i) strides[i] *= attributes.get_ints("strides")[i];
          move(in[0], out[0], [&](const Axes& index) { return start + offset_of(index, strides); });
        },
    .gradient = [](const GradientRequest& request) -> Gradients {
      const Shape& shape = request.inputs[0].shape();
      const Axes &starts = request.attributes.get_ints("starts"), &strides = request.attributes.get_ints("strides");
      Tensor dy = request.cotangents[0];
      Axes low = starts, high;
      for (size_t i = 0; i < shape.size(); ++i) {
        // Spread by the stride: [.., n, ..] -> [.., n, 1, ..] padded to [.., n, stride, ..] -> [.., n * stride, ..].
        if (strides[i] > 1) {
          const Shape before = dy.shape();
          const auto axis = static_cast<int64_t>(i);
          Axes none(before.size() + 1, 0), behind = none;
          behind[i + 1] = strides[i] - 1;
          Shape joined = before;
          joined[i] *= strides[i];
          dy = reshape(pad(unsqueeze(dy, axis + 1), none, behind), joined);
          const int64_t room = shape[i] - starts[i];
          if (dy.dim(axis) > room) dy = slice(dy, axis, 0, room);
        }
        high.push_back(shape[i] - starts[i] - dy.dim(static_cast<int64_t>(i)));
      }
      return {pad(dy, low, high)};
    },
    .samples =
        [] {
          const auto attributes = [](Axes starts, Axes limits, Axes strides) {
            return Attributes{{"starts", starts}, {"limits", limits}, {"strides", strides}};
          };
          return joined({in_types({5, 7}, attributes({1, 2}, {4, 7}, {1, 1})),
                         in_types({5, 7}, attributes({0, 1}, {5, 7}, {2, 3})),
                         in_types({5, 7}, attributes({2, 0}, {2, 7}, {1, 1})),
                         in_types({9}, attributes({8}, {9}, {4}))});
        }};

const Operation kPad = {.name = "pad",
                        .documentation = "Extents grow by `low` before and `high` behind, filled with `value`.",
                        .moves_only = true,
                        .infer = [](const Inference& in) -> std::vector<Type> {
                          expect_inputs(in, 1);
                          const Axes &low = in.attributes.get_ints("low"), &high = in.attributes.get_ints("high");
                          const size_t rank = in.shape(0).size();
                          check(in, low.size() == rank && high.size() == rank, "one number an axis is needed");
                          Shape shape = in.shape(0);
                          for (size_t i = 0; i < rank; ++i) {
                            expect_between(in, {low[i], high[i]}, 0, int64_t{1} << 60, "padding (to cut, use slice)");
                            shape[i] += low[i] + high[i];
                          }
                          return {{in.dtype(0), shape}};
                        },
                        .evaluate =
                            [](std::span<const Array> in, const Attributes& attributes, std::span<Array> out) {
                              const double value = attributes.get_float("value");
                              std::fill(out[0].real.begin(), out[0].real.end(), value);
                              for (int64_t i = 0; !out[0].floating() && i < elements(out[0].type.shape); ++i)
                                out[0].set(i, value);
                              const Axes strides = strides_of(out[0].type.shape);
                              const int64_t start = offset_of(attributes.get_ints("low"), strides);
                              size_t place = 0;
                              for_each_index(in[0].type.shape, [&](const Axes& index) {
                                const auto to = static_cast<size_t>(start + offset_of(index, strides));
                                if (out[0].floating()) out[0].real[to] = in[0].real[place++];
                                else out[0].integer[to] = in[0].integer[place++];
                              });
                            },
                        .gradient = [](const GradientRequest& request) -> Gradients {
                          Tensor dy = request.cotangents[0];
                          const Axes& low = request.attributes.get_ints("low");
                          for (size_t i = 0; i < low.size(); ++i)
                            dy = slice(dy, static_cast<int64_t>(i), low[i], low[i] + request.inputs[0].shape()[i]);
                          return {dy};
                        },
                        .samples =
                            [] {
                              const auto attributes = [](Axes low, Axes high, double value) {
                                return Attributes{{"low", low}, {"high", high}, {"value", value}};
                              };
                              return joined({in_types({3, 4}, attributes({1, 0}, {2, 3}, 0.0)),
                                             in_types({3, 4}, attributes({0, 2}, {0, 0}, 1.0)),
                                             in_types({0, 4}, attributes({1, 0}, {1, 0}, 1.0))});
                            }};

const Operation kConcatenate = {
    .name = "concatenate",
    .documentation = "Tensors one behind the other along `axis`.",
    .moves_only = true,
    .infer = [](const Inference& in) -> std::vector<Type> {
      check(in, !in.inputs.empty(), "expected at least one tensor");
      const int64_t axis = in.attributes.get_int("axis");
      expect_axis(in, axis, in.rank(0));
      Shape shape = in.shape(0);
      for (size_t i = 1; i < in.inputs.size(); ++i) {
        expect_same_types(in, 0, i);
        check(in, in.rank(i) == in.rank(0) && without_axes(in.shape(i), {axis}) == without_axes(in.shape(0), {axis}),
              "{} and {} differ beside axis {}", in.shape(0), in.shape(i), axis);
        shape[static_cast<size_t>(axis)] += in.shape(i)[static_cast<size_t>(axis)];
      }
      return {{in.dtype(0), shape}};
    },
    .evaluate =
        [](std::span<const Array> in, const Attributes& attributes, std::span<Array> out) {
          const auto axis = static_cast<size_t>(attributes.get_int("axis"));
          const Axes strides = strides_of(out[0].type.shape);
          int64_t start = 0;
          for (const Array& part : in) {
            size_t place = 0;
            for_each_index(part.type.shape, [&](const Axes& index) {
              const auto to = static_cast<size_t>(start + offset_of(index, strides));
              if (out[0].floating()) out[0].real[to] = part.real[place++];
              else out[0].integer[to] = part.integer[place++];
            });
            start += part.type.shape[axis] * strides[axis];
          }
        },
    .gradient = [](const GradientRequest& request) -> Gradients {
      const int64_t axis = request.attributes.get_int("axis");
      Gradients result;
      int64_t start = 0;
      for (size_t i = 0; i < request.inputs.size(); ++i) {
        const int64_t extent = request.inputs[i].dim(axis);
        result.push_back(request.wanted(i) ? slice(request.cotangents[0], axis, start, start + extent) : Tensor());
        start += extent;
      }
      return result;
    },
    .samples = []() -> std::vector<Sample> {
      std::vector<Sample> samples;
      for (const DType dtype : {DType::kFloat32, DType::kBFloat16, DType::kInt64, DType::kBool}) {
        samples.push_back({{{dtype, {2, 3}}, {dtype, {4, 3}}}, {{"axis", int64_t{0}}}});
        samples.push_back({{{dtype, {2, 3, 2}}, {dtype, {2, 1, 2}}, {dtype, {2, 0, 2}}}, {{"axis", int64_t{1}}}});
        samples.push_back({{{dtype, {5}}}, {{"axis", int64_t{0}}}});
      }
      return samples;
    }};

const Operation kReverse = {
    .name = "reverse",
    .documentation = "Turns `axes` round.",
    .moves_only = true,
    .infer = [](const Inference& in) -> std::vector<Type> {
      expect_inputs(in, 1);
      expect_rank_axes(in, in.attributes.get_ints("axes"), in.rank(0));
      return {in.inputs[0]};
    },
    .evaluate =
        [](std::span<const Array> in, const Attributes& attributes, std::span<Array> out) {
          Axes strides = strides_of(in[0].type.shape);
          int64_t start = 0;
          for (const int64_t axis : attributes.get_ints("axes")) {
            int64_t& stride = strides[static_cast<size_t>(axis)];
            start += (in[0].type.shape[static_cast<size_t>(axis)] - 1) * stride;
            stride = -stride;
          }
          move(in[0], out[0], [&](const Axes& index) { return start + offset_of(index, strides); });
        },
    .gradient = [](const GradientRequest& request) -> Gradients {
      return {reverse(request.cotangents[0], request.attributes.get_ints("axes"))};
    },
    .samples =
        [] {
          return joined({in_types({3, 5}, {{"axes", Axes{1}}}), in_types({3, 5}, {{"axes", Axes{0, 1}}}),
                         in_types({0}, {{"axes", Axes{0}}})});
        }};

}  // namespace

const RegisterOperations kRegisteredMovement{&kReshape, &kPermute,     &kBroadcast, &kSlice,
                                             &kPad,     &kConcatenate, &kReverse};

namespace op {
const Operation &reshape = kReshape, &permute = kPermute, &broadcast = kBroadcast, &slice = kSlice, &pad = kPad,
                &concatenate = kConcatenate;
}  // namespace op

Tensor reshape(const Tensor& x, Shape shape) {
  int64_t known = 1;
  int64_t* open = nullptr;
  for (int64_t& extent : shape) {
    if (extent != -1) known *= extent;
    else if (open) fail("{}reshape: {} leaves two extents open", scope_prefix(), to_string(shape));
    else open = &extent;
  }
  if (open) *open = known == 0 ? 0 : x.size() / known;
  if (x.shape() == shape) return x;
  return make_tensor(kReshape, {x}, {{"shape", std::move(shape)}});
}

Tensor permute(const Tensor& x, const Axes& permutation) {
  Axes axes;
  bool identity = true;
  for (const int64_t axis : permutation) {
    axes.push_back(normal_axis(axis, x.rank(), "permute"));
    identity &= axes.back() == static_cast<int64_t>(axes.size()) - 1;
  }
  if (identity && static_cast<int64_t>(axes.size()) == x.rank()) return x;
  return make_tensor(kPermute, {x}, {{"permutation", std::move(axes)}});
}

Tensor transpose(const Tensor& x, int64_t axis1, int64_t axis2) {
  Axes permutation(static_cast<size_t>(x.rank()));
  std::iota(permutation.begin(), permutation.end(), int64_t{0});
  std::swap(permutation[static_cast<size_t>(normal_axis(axis1, x.rank(), "transpose"))],
            permutation[static_cast<size_t>(normal_axis(axis2, x.rank(), "transpose"))]);
  return permute(x, permutation);
}

Tensor broadcast_to(const Tensor& x, const Shape& shape) {
  if (x.shape() == shape) return x;
  Shape padded(shape.size() > x.shape().size() ? shape.size() - x.shape().size() : 0, 1);
  padded.insert(padded.end(), x.shape().begin(), x.shape().end());
  const Tensor same_rank = reshape(x, padded);
  return padded == shape ? same_rank : make_tensor(kBroadcast, {same_rank}, {{"shape", shape}});
}

Tensor unsqueeze(const Tensor& x, int64_t axis) {
  Shape shape = x.shape();
  shape.insert(shape.begin() + normal_axis(axis, x.rank() + 1, "unsqueeze"), 1);
  return reshape(x, shape);
}

Tensor squeeze(const Tensor& x, int64_t axis) {
  Shape shape = x.shape();
  const int64_t place = normal_axis(axis, x.rank(), "squeeze");
  if (shape[static_cast<size_t>(place)] != 1)
    fail("{}squeeze: axis {} of {} is not 1", scope_prefix(), axis, to_string(shape));
  shape.erase(shape.begin() + place);
  return reshape(x, shape);
}

Tensor flatten(const Tensor& x, int64_t first, int64_t last) {
  first = normal_axis(first, x.rank(), "flatten");
  last = normal_axis(last, x.rank(), "flatten");
  if (first > last) fail("{}flatten: axis {} comes behind axis {}", scope_prefix(), first, last);
  Shape shape(x.shape().begin(), x.shape().begin() + first);
  shape.push_back(elements(Shape(x.shape().begin() + first, x.shape().begin() + last + 1)));
  shape.insert(shape.end(), x.shape().begin() + last + 1, x.shape().end());
  return reshape(x, shape);
}

Tensor slice(const Tensor& x, int64_t axis, int64_t begin, int64_t end, int64_t stride) {
  axis = normal_axis(axis, x.rank(), "slice");
  const int64_t extent = x.dim(axis);
  if (begin < 0) begin += extent;
  if (end < 0) end += extent;
  if (begin == 0 && end == extent && stride == 1) return x;
  Axes starts(static_cast<size_t>(x.rank()), 0), strides(starts.size(), 1), limits = x.shape();
  starts[static_cast<size_t>(axis)] = begin;
  limits[static_cast<size_t>(axis)] = end;
  strides[static_cast<size_t>(axis)] = stride;
  return make_tensor(kSlice, {x}, {{"starts", starts}, {"limits", limits}, {"strides", strides}});
}

Tensor pad(const Tensor& x, const Axes& low, const Axes& high, double value) {
  const auto is_zero = [](int64_t n) { return n == 0; };
  if (std::all_of(low.begin(), low.end(), is_zero) && std::all_of(high.begin(), high.end(), is_zero)) return x;
  return make_tensor(kPad, {x}, {{"low", low}, {"high", high}, {"value", value}});
}

Tensor concatenate(const std::vector<Tensor>& tensors, int64_t axis) {
  if (tensors.empty()) fail("{}concatenate: expected at least one tensor", scope_prefix());
  if (tensors.size() == 1) return tensors[0];
  return make_tensor(kConcatenate, tensors, {{"axis", normal_axis(axis, tensors[0].rank(), "concatenate")}});
}

Tensor stack(const std::vector<Tensor>& tensors, int64_t axis) {
  std::vector<Tensor> parts;
  for (const Tensor& tensor : tensors) parts.push_back(unsqueeze(tensor, axis));
  return concatenate(parts, axis);
}

Tensor Tensor::operator[](int64_t index) const {
  if (rank() == 0) fail("{}a tensor without axes has no element {}", scope_prefix(), index);
  const int64_t extent = dim(0);
  if (index < -extent || index >= extent)
    fail("{}index {} is outside of axis 0 of {}", scope_prefix(), index, to_string(type()));
  const int64_t row = index < 0 ? index + extent : index;
  return squeeze(slice(*this, 0, row, row + 1), 0);
}

Tensor reverse(const Tensor& x, const Axes& axes) {
  return make_tensor(kReverse, {x}, {{"axes", normal_axes(axes, x.rank(), "reverse")}});
}

}  // namespace transom
