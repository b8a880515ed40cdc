// SPDX-License-Identifier: Apache-2.0
// Convolutions as products of gathered windows. Input padding and dilation, kernel dilation, output stride and
// truncation are emulated; other transforms are refused.
#include "poplin/Convolution.hpp"

#include <algorithm>

#include "poplin/mat_mul_plan.h"
#include "poplin/operands.h"
#include "poputil/TileMapping.hpp"
#include "simulator/kernels.h"

namespace ipu_emulator {
namespace {

using poplin::ConvParams;

void expect(bool condition, const std::string& text) {
  if (!condition) throw poplar::graph_error("convolution: " + text);
}

void check(const poplar::Graph& graph, const ConvParams& p) {
  expect(graph.state()->libraries.count("poplin"), "expected poplin::addCodelets first");
  expect(p.inputType == poplar::FLOAT || p.inputType == poplar::HALF, "expected float or half");
  for (size_t i = 0; i < p.inputFieldShape.size(); ++i) {
    const auto none = [&](const std::vector<unsigned>& list) { return list[i] == 0; };
    expect(none(p.inputTransform.truncationLower) && none(p.inputTransform.truncationUpper) &&
               !p.inputTransform.flip[i] && none(p.kernelTransform.truncationLower) &&
               none(p.kernelTransform.truncationUpper) && none(p.kernelTransform.paddingLower) &&
               none(p.kernelTransform.paddingUpper) && !p.kernelTransform.flip[i] &&
               none(p.outputTransform.paddingLower) && none(p.outputTransform.paddingUpper),
           "this transform is not emulated");
  }
}

size_t count_of(const std::vector<size_t>& shape) {
  size_t count = 1;
  for (const size_t extent : shape) count *= extent;
  return count;
}

// For each place of the output and of the kernel the place of the input's field, or -1 where there is padding.
std::vector<int64_t> window_places(const ConvParams& p, const std::vector<size_t>& output) {
  const size_t rank = output.size(), kernel = count_of(p.kernelShape), places = count_of(output);
  std::vector<int64_t> result(kernel * places);
  for (size_t k = 0; k < kernel; ++k)
    for (size_t o = 0; o < places; ++o) {
      int64_t at = 0, stride = 1;
      size_t kernel_left = k, output_left = o;
      for (size_t i = rank; i-- > 0;) {
        const auto ki = static_cast<int64_t>(kernel_left % p.kernelShape[i]),
                   oi = static_cast<int64_t>(output_left % output[i]);
        kernel_left /= p.kernelShape[i];
        output_left /= output[i];
        const int64_t padded = (oi * p.outputTransform.stride[i]) + p.outputTransform.truncationLower[i] +
                               ki * p.kernelTransform.dilation[i] - p.inputTransform.paddingLower[i];
        const int64_t dilation = p.inputTransform.dilation[i];
        if (at >= 0 &&
            (padded < 0 || padded % dilation != 0 || padded / dilation >= static_cast<int64_t>(p.inputFieldShape[i])))
          at = -1;
        if (at >= 0) at += padded / dilation * stride;
        stride *= static_cast<int64_t>(p.inputFieldShape[i]);
      }
      result[k * places + o] = at;
    }
  return result;
}

std::vector<size_t> output_field(const ConvParams& p) {
  std::vector<size_t> shape;
  for (unsigned i = 0; i < p.inputFieldShape.size(); ++i) shape.push_back(p.getOutputSize(i));
  return shape;
}

// The parameters that are emulated, of each dimension of the field.
std::string stored(const ConvParams& p) {
  Writer to;
  for (const size_t value : {p.batchSize, p.numConvGroups, p.inputChannelsPerConvGroup, p.outputChannelsPerConvGroup})
    to.number(value);
  to.numbers(p.inputFieldShape);
  to.numbers(p.kernelShape);
  for (const auto* list : {&p.inputTransform.paddingLower, &p.inputTransform.paddingUpper, &p.inputTransform.dilation,
                           &p.kernelTransform.dilation, &p.outputTransform.stride, &p.outputTransform.truncationLower,
                           &p.outputTransform.truncationUpper})
    to.numbers(*list);
  return std::move(to.bytes);
}

ConvParams read_params(const Step& step, Reader& from) {
  constexpr uint64_t kMost = 1 << 20;  // so that no product of three extents is beyond 64 bits
  ConvParams p;
  for (size_t* value : {&p.batchSize, &p.numConvGroups, &p.inputChannelsPerConvGroup, &p.outputChannelsPerConvGroup})
    *value = from.number(kMost);
  p.inputFieldShape = from.numbers<size_t>();
  p.kernelShape = from.numbers<size_t>();
  p.inputTransform = p.kernelTransform = ConvParams::InputTransform(p.inputFieldShape.size());
  p.outputTransform = ConvParams::OutputTransform(p.inputFieldShape.size());
  for (auto* list : {&p.inputTransform.paddingLower, &p.inputTransform.paddingUpper, &p.inputTransform.dilation,
                     &p.kernelTransform.dilation, &p.outputTransform.stride, &p.outputTransform.truncationLower,
                     &p.outputTransform.truncationUpper}) {
    *list = from.numbers<unsigned>();
    Reader::expect(list->size() == p.inputFieldShape.size(), "parameters of each dimension of a convolution");
    for (const unsigned value : *list) Reader::expect(value <= kMost, "parameters of a convolution within reason");
  }
  Reader::expect(p.kernelShape.size() == p.inputFieldShape.size() && p.inputFieldShape.size() <= 3,
                 "a kernel of a convolution's rank");
  for (size_t i = 0; i < p.kernelShape.size(); ++i)
    Reader::expect(p.inputFieldShape[i] <= kMost && p.kernelShape[i] >= 1 && p.kernelShape[i] <= kMost &&
                       p.outputTransform.stride[i] >= 1 && p.inputTransform.dilation[i] >= 1 &&
                       p.getOutputSize(static_cast<unsigned>(i)) <= kMost,
                   "parameters of a convolution within reason");
  expect_tensors(step, 2, 1);
  for (const auto* tensors : {&step.reads, &step.writes})
    for (const poplar::Tensor& tensor : *tensors)
      Reader::expect(tensor.elementType() == poplar::FLOAT || tensor.elementType() == poplar::HALF,
                     "a convolution of float or half");
  return p;
}

// Whether the tensor has that many elements; factors whose product is beyond 64 bits have another number.
bool has_elements(const poplar::Tensor& tensor, std::initializer_list<size_t> factors) {
  WideInteger count = 1;
  for (const size_t factor : factors) {
    count *= static_cast<WideInteger>(factor);
    if (count > INT64_MAX) return false;
  }
  return count == static_cast<WideInteger>(tensor.numElements());
}

// The extents of a convolution's operands, places and kernels flattened.
struct Extents {
  explicit Extents(const ConvParams& params)
      : batch(params.batchSize),
        groups(params.numConvGroups),
        channels(params.inputChannelsPerConvGroup),
        outputs(params.outputChannelsPerConvGroup),
        kernel(count_of(params.kernelShape)),
        input_places(count_of(params.inputFieldShape)),
        field(output_field(params)),
        places(count_of(field)) {}
  bool has_input(const poplar::Tensor& t) const { return has_elements(t, {batch, groups, channels, input_places}); }
  bool has_weights(const poplar::Tensor& t) const { return has_elements(t, {groups, outputs, channels, kernel}); }
  bool has_output(const poplar::Tensor& t) const { return has_elements(t, {batch, groups, outputs, places}); }

  size_t batch, groups, channels, outputs, kernel, input_places;
  std::vector<size_t> field;  // of the output
  size_t places;
};

const RegisterKernel kConvolutionKernel(
    "convolution", [](const Step& step, Reader& from) -> std::function<void(Memory&)> {
      const ConvParams params = read_params(step, from);
      const poplar::Tensor in = step.reads[0], w = step.reads[1], out = step.writes[0];
      const Extents e(params);
      Reader::expect(e.has_input(in) && e.has_weights(w) && e.has_output(out), "operands of a convolution's shapes");
      return [=](Memory& memory) {
        const auto& [batch, groups, channels, outputs, kernel, input_places, field, places] = e;
        const std::vector<float> x = load_floats(memory, in), weight = load_floats(memory, w);
        const std::vector<int64_t> from = window_places(params, field);
        std::vector<float> columns(channels * kernel * places), result(out.numElements());
        for (size_t n = 0; n < batch; ++n)
          for (size_t g = 0; g < groups; ++g) {
            for (size_t c = 0; c < channels; ++c) {
              const float* plane = x.data() + ((n * groups + g) * channels + c) * input_places;
              float* to = columns.data() + c * kernel * places;
              for (size_t i = 0; i < kernel * places; ++i) to[i] = from[i] < 0 ? 0 : plane[from[i]];
            }
            multiply(weight.data() + g * outputs * channels * kernel, columns.data(),
                     result.data() + (n * groups + g) * outputs * places, outputs, channels * kernel, places);
          }
        store_floats(memory, result, out);
      };
    });

const RegisterKernel kWeightDeltasKernel(
    "weightDeltas", [](const Step& step, Reader& from) -> std::function<void(Memory&)> {
      const ConvParams params = read_params(step, from);
      const poplar::Tensor zDeltas = step.reads[0], activations = step.reads[1], out = step.writes[0];
      const Extents e(params);
      Reader::expect(e.has_output(zDeltas) && e.has_input(activations) && e.has_weights(out),
                     "operands of a convolution's shapes");
      return [=](Memory& memory) {
        const auto& [batch, groups, channels, outputs, kernel, input_places, field, places] = e;
        const std::vector<float> dy = load_floats(memory, zDeltas), x = load_floats(memory, activations);
        const std::vector<int64_t> from = window_places(params, field);
        std::vector<float> windows(places * channels * kernel), part(outputs * channels * kernel),
            result(out.numElements(), 0.0f);
        for (size_t n = 0; n < batch; ++n)
          for (size_t g = 0; g < groups; ++g) {
            for (size_t c = 0; c < channels; ++c) {
              const float* plane = x.data() + ((n * groups + g) * channels + c) * input_places;
              for (size_t k = 0; k < kernel; ++k)
                for (size_t o = 0; o < places; ++o) {
                  const int64_t at = from[k * places + o];
                  windows[(o * channels + c) * kernel + k] = at < 0 ? 0 : plane[at];
                }
            }
            multiply(dy.data() + (n * groups + g) * outputs * places, windows.data(), part.data(), outputs, places,
                     channels * kernel);
            float* to = result.data() + g * outputs * channels * kernel;
            for (size_t i = 0; i < part.size(); ++i) to[i] += part[i];
          }
        store_floats(memory, result, out);
      };
    });

void add(poplar::Graph& graph, poplar::program::Sequence& prog, const MatMulShape& shape, const ConvParams& p,
         const std::vector<poplar::Tensor>& reads, const poplar::Tensor& out, const std::string& name,
         const poplar::OptionFlags& options, const char* kernel) {
  const MatMulPlan plan = plan_mat_mul(graph.getTarget(), graph.tiles(), shape, size_of(p.inputType),
                                       options.at("partialsType", "float") == "half" && p.inputType == poplar::HALF,
                                       std::strtod(options.at("availableMemoryProportion", "0.6").c_str(), nullptr));
  Operation operation;
  operation.name = name + "/convolution";
  operation.writes = {out};
  operation.flops = 2 * shape.groups * shape.rows * shape.inner * shape.columns;
  operation.kernel = kernel;
  operation.parameters = stored(p);
  add_operation(graph, prog, std::move(operation));
  Step& step = *prog.step()->children.back();
  step.reads = reads;
  step.codelet = "convolution " + p.inputType.toString();
  step.work.clear();
  for (unsigned tile = 0; tile < plan.tiles; ++tile)
    step.work.push_back({graph.firstTile() + tile, plan.cycles, plan.received, plan.temporary, 6});
}

}  // namespace
}  // namespace ipu_emulator

namespace poplin {

using namespace ipu_emulator;

std::size_t ConvParams::getOutputSize(unsigned dim) const {
  const int64_t input =
      static_cast<int64_t>(inputFieldShape[dim] ? (inputFieldShape[dim] - 1) * inputTransform.dilation[dim] + 1 : 0) +
      inputTransform.paddingLower[dim] + inputTransform.paddingUpper[dim];
  const int64_t kernel = static_cast<int64_t>(kernelShape[dim] - 1) * kernelTransform.dilation[dim] + 1;
  const int64_t whole =
      input - kernel + 1 - outputTransform.truncationLower[dim] - outputTransform.truncationUpper[dim];
  return whole <= 0 ? 0 : static_cast<size_t>((whole - 1) / outputTransform.stride[dim] + 1);
}

poplar::Tensor convolution(poplar::Graph& graph, const poplar::Tensor& in, const poplar::Tensor& weights,
                           const ConvParams& params, bool transposeAndFlipWeights, poplar::program::Sequence& prog,
                           const poplar::DebugContext& debugContext, const poplar::OptionFlags& options) {
  check(graph, params);
  const size_t groups = params.numConvGroups, channels = params.inputChannelsPerConvGroup,
               outputs = params.outputChannelsPerConvGroup, batch = params.batchSize;
  const std::vector<size_t> field = output_field(params);
  const size_t places = count_of(field), kernel = count_of(params.kernelShape),
               input_places = count_of(params.inputFieldShape);
  expect(
      in.numElements() == batch * groups * channels * input_places &&
          weights.numElements() == groups * outputs * channels * kernel,
      "expected operands of the parameters' shapes, found " + in.shapeToString() + " and " + weights.shapeToString());
  // [groups, outputs, channels, kernel...]
  poplar::Tensor w = weights;
  if (transposeAndFlipWeights) {
    std::vector<unsigned> order(weights.rank());
    for (unsigned i = 0; i < order.size(); ++i) order[i] = i;
    std::swap(order[1], order[2]);
    w = w.dimShuffle(order);
    for (unsigned i = 3; i < w.rank(); ++i) w = w.reverse(i);
  }
  std::vector<size_t> shape = {batch, groups * outputs};
  shape.insert(shape.end(), field.begin(), field.end());
  poplar::Tensor out = graph.addVariable(params.outputType, shape, debugContext);
  poputil::mapTensorLinearly(graph, out);
  if (out.numElements() == 0) return out;
  add(graph, prog, {groups, batch * places, channels * kernel, outputs}, params, {in, w}, out,
      debugContext.getPathName(), options, "convolution");
  return out;
}

poplar::Tensor calculateWeightDeltas(poplar::Graph& graph, const poplar::Tensor& zDeltas,
                                     const poplar::Tensor& activations, const ConvParams& params,
                                     poplar::program::Sequence& prog, const poplar::DebugContext& debugContext,
                                     const poplar::OptionFlags& options) {
  check(graph, params);
  const size_t groups = params.numConvGroups, channels = params.inputChannelsPerConvGroup,
               outputs = params.outputChannelsPerConvGroup, batch = params.batchSize;
  const std::vector<size_t> field = output_field(params);
  const size_t places = count_of(field), kernel = count_of(params.kernelShape),
               input_places = count_of(params.inputFieldShape);
  expect(zDeltas.numElements() == batch * groups * outputs * places &&
             activations.numElements() == batch * groups * channels * input_places,
         "expected operands of the parameters' shapes");
  std::vector<size_t> shape = {groups, outputs, channels};
  shape.insert(shape.end(), params.kernelShape.begin(), params.kernelShape.end());
  poplar::Tensor out = graph.addVariable(params.outputType, shape, debugContext);
  poputil::mapTensorLinearly(graph, out);
  if (out.numElements() == 0) return out;
  add(graph, prog, {groups, outputs, batch * places, channels * kernel}, params, {zDeltas, activations}, out,
      debugContext.getPathName(), options, "weightDeltas");
  return out;
}

}  // namespace poplin
