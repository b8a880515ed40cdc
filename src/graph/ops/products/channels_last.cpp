// SPDX-License-Identifier: Apache-2.0
// Convolution and its gradients, and sums over all places, of tensors whose channels stand last: made by the layout
// pass only, for devices that support them. They are composites of permutes and the primitives, so that they give the
// same numbers.
#include "graph/ops/records.h"
#include "graph/ops/rules.h"

namespace transom {
namespace {

Shape channels_first(const Shape& shape) {
  Shape result = shape;
  std::rotate(result.begin() + 1, result.end() - 1, result.end());
  return result;
}

Shape channels_last(const Shape& shape) {
  Shape result = shape;
  std::rotate(result.begin() + 1, result.begin() + 2, result.end());
  return result;
}

Tensor moved(const Tensor& x, Shape (*order)(const Shape&)) {
  Axes axes(x.shape().size());
  std::iota(axes.begin(), axes.end(), int64_t{0});
  return permute(x, order(axes));
}

// Which of (first input, second input, output) are images; the remaining one is the weight.
struct ChannelsLastForm {
  const Operation* primitive;
  bool images[2], output;
};
template <size_t form>
ChannelsLastForm form_of() {
  if constexpr (form == 0) return {&op::convolution, {true, false}, true};
  if constexpr (form == 1) return {&op::convolution_input_gradient, {true, false}, true};
  if constexpr (form == 2) return {&op::convolution_weight_gradient, {true, true}, false};
  if constexpr (form == 3) return {&op::integer_convolution, {true, false}, true};
}

// Those of the primitive: `shape`, if it is that of an image, has its channels in front there.
Attributes primitive_attributes(const ChannelsLastForm& form, const Attributes& attributes) {
  Attributes result = attributes;
  if (attributes.has("shape") && form.output) result.set("shape", channels_first(attributes.get_ints("shape")));
  return result;
}

template <size_t which>
std::vector<Type> infer_channels_last(const Inference& in) {
  const ChannelsLastForm form = form_of<which>();
  expect_inputs(in, 2);
  for (size_t i = 0; i < 2; ++i) check(in, in.rank(i) >= 3, "expected tensors with spatial axes");
  if (in.attributes.has("shape"))
    check(in, in.attributes.get_ints("shape").size() >= 3, "expected a shape with spatial axes");
  std::vector<Type> inputs(in.inputs.begin(), in.inputs.end());
  for (size_t i = 0; i < 2; ++i)
    if (form.images[i]) inputs[i].shape = channels_first(inputs[i].shape);
  const Attributes attributes = primitive_attributes(form, in.attributes);
  std::vector<Type> types = form.primitive->infer({in.operation, inputs, attributes});
  if (form.output) types[0].shape = channels_last(types[0].shape);
  return types;
}

template <size_t form>
std::vector<Tensor> decompose_channels_last(std::span<const Tensor> in, const Attributes& attributes) {
  const ChannelsLastForm f = form_of<form>();
  std::vector<Tensor> inputs(in.begin(), in.end());
  for (size_t i = 0; i < 2; ++i)
    if (f.images[i]) inputs[i] = moved(inputs[i], channels_first);
  const Tensor result = make_tensor(*f.primitive, inputs, primitive_attributes(f, attributes));
  return {f.output ? moved(result, channels_last) : result};
}

template <size_t form>
std::vector<Sample> samples() {
  const ChannelsLastForm f = form_of<form>();
  std::vector<Sample> result = f.primitive->samples();
  for (Sample& sample : result) {
    for (size_t i = 0; i < 2; ++i)
      if (f.images[i]) sample.inputs[i].shape = channels_last(sample.inputs[i].shape);
    if (sample.attributes.has("shape") && f.output)
      sample.attributes.set("shape", channels_last(sample.attributes.get_ints("shape")));
  }
  return result;
}

const Operation kChannelsLastConvolution = {
    .name = "channels_last_convolution",
    .kind = OperationKind::kComposite,
    .documentation = "convolution of x [N, spatial..., C] by windows [O, C / groups, window...]: [N, spatial..., O].",
    .category = Category::kProducts,
    .flops = flops_of_convolution,
    .error = kSumError,
    .infer = infer_channels_last<0>,
    .decompose = decompose_channels_last<0>,
    .samples = samples<0>};

const Operation kChannelsLastInputGradient = {
    .name = "channels_last_convolution_input_gradient",
    .kind = OperationKind::kComposite,
    .documentation = "(dy, w): the gradient of channels_last_convolution for its input, which has `shape`.",
    .category = Category::kProducts,
    .flops = flops_of_input_gradient,
    .error = kSumError,
    .infer = infer_channels_last<1>,
    .decompose = decompose_channels_last<1>,
    .samples = samples<1>};

const Operation kChannelsLastWeightGradient = {
    .name = "channels_last_convolution_weight_gradient",
    .kind = OperationKind::kComposite,
    .documentation = "(x, dy): the gradient of channels_last_convolution for its windows, which have `shape`.",
    .category = Category::kProducts,
    .flops = flops_of_weight_gradient,
    .error = kSumError,
    .infer = infer_channels_last<2>,
    .decompose = decompose_channels_last<2>,
    .samples = samples<2>};

const Operation kChannelsLastIntegerConvolution = {
    .name = "channels_last_integer_convolution",
    .kind = OperationKind::kComposite,
    .documentation =
        "integer_convolution of x [N, spatial..., C] by windows [O, C / groups, window...]: [N, spatial..., O].",
    .stops_gradient = true,
    .category = Category::kProducts,
    .flops = flops_of_convolution,
    .error = kRoundedError,
    .infer = infer_channels_last<3>,
    .decompose = decompose_channels_last<3>,
    .samples = samples<3>};

Axes spatial_axes(int64_t rank) {
  Axes axes(static_cast<size_t>(rank - 2));
  std::iota(axes.begin(), axes.end(), int64_t{2});
  return axes;
}

const Operation kChannelsLastReduceSum = {
    .name = "channels_last_reduce_sum",
    .kind = OperationKind::kComposite,
    .documentation = "The sum over all places of x [N, spatial..., C]: [N, C].",
    .category = Category::kRows,
    .error = kSumError,
    .infer =
        [](const Inference& in) {
          expect_inputs(in, 1);
          check(in, in.rank(0) >= 3, "expected a tensor with spatial axes");
          check(in, in.dtype(0) != DType::kBool, "expected numbers, found bool");
          return std::vector<Type>{{in.dtype(0), {in.shape(0).front(), in.shape(0).back()}}};
        },
    .decompose =
        [](std::span<const Tensor> in, const Attributes&) {
          return std::vector<Tensor>{reduce_sum(moved(in[0], channels_first), spatial_axes(in[0].rank()))};
        },
    .samples =
        [] {
          return std::vector<Sample>{{{{DType::kFloat32, {2, 7, 7, 20}}}},
                                     {{{DType::kFloat32, {1, 70, 80, 3}}}},
                                     {{{DType::kFloat32, {3, 5, 1, 2, 33}}}},
                                     {{{DType::kBFloat16, {2, 9, 5}}}}};
        }};

}  // namespace

const RegisterOperations kRegisteredChannelsLast{&kChannelsLastConvolution, &kChannelsLastInputGradient,
                                                 &kChannelsLastWeightGradient, &kChannelsLastIntegerConvolution,
                                                 &kChannelsLastReduceSum};

namespace op {
const Operation &channels_last_convolution = kChannelsLastConvolution,
                &channels_last_convolution_input_gradient = kChannelsLastInputGradient,
                &channels_last_convolution_weight_gradient = kChannelsLastWeightGradient,
                &channels_last_integer_convolution = kChannelsLastIntegerConvolution,
                &channels_last_reduce_sum = kChannelsLastReduceSum;
}  // namespace op

}  // namespace transom
