// SPDX-License-Identifier: Apache-2.0
#include "ipu/lowering/lowering.h"

#include <algorithm>
#include <map>
#include <poplar/CSRFunctions.hpp>
#include <poplin/codelets.hpp>
#include <popops/Cast.hpp>
#include <popops/Fill.hpp>
#include <popops/codelets.hpp>
#include <poprand/RandomGen.hpp>
#include <poprand/codelets.hpp>
#include <popsparse/codelets.hpp>
#include <poputil/TileMapping.hpp>

#include "ipu/device/ipu_config.h"
#include "transom/plugin/error.h"

namespace transom::ipu {
namespace {

using backend::fail;
using Lower = void (*)(Lowering&, Work&);

const std::map<std::string, Lower, std::less<>>& operations() {
  static const std::map<std::string, Lower, std::less<>> table = {
      {"fusion", lower_fusion},
      {"reshape", lower_movement},
      {"permute", lower_movement},
      {"broadcast", lower_movement},
      {"slice", lower_movement},
      {"pad", lower_movement},
      {"concatenate", lower_movement},
      {"reverse", lower_movement},
      {"constant", lower_constant},
      {"iota", lower_constant},
      {"reduce_sum", lower_reduction},
      {"reduce_max", lower_reduction},
      {"reduce_min", lower_reduction},
      {"arg_max", lower_lines},
      {"arg_min", lower_lines},
      {"cumulative_sum", lower_lines},
      {"sort", lower_lines},
      {"top_k", lower_lines},
      {"pow", lower_integer_power},
      {"random_bits", lower_random},
      {"gather", lower_gather},
      {"scatter_add", lower_scatter},
      {"dynamic_slice", lower_dynamic_slice},
      {"dynamic_update_slice", lower_dynamic_slice},
      {"dot_general", lower_product},
      {"linear", lower_product},
      {"convolution", lower_convolution},
      {"convolution_input_gradient", lower_convolution},
      {"convolution_weight_gradient", lower_convolution},
  };
  return table;
}

}  // namespace

void lower_whole(Lowering& lowering, Work& work) {
  const Node& node = work.node;
  if (is_elementwise(node)) return lower_elementwise(lowering, work);
  const auto found = operations().find(node.op());
  if (found == operations().end()) fail(TRANSOM_UNSUPPORTED, "{}: the device has no such operation", node.place());
  found->second(lowering, work);
}

poplar::Type device_type(transom_dtype dtype) {
  switch (dtype) {
    case TRANSOM_BOOL:
      return poplar::BOOL;
    case TRANSOM_UINT8:
      return poplar::UNSIGNED_CHAR;
    case TRANSOM_INT8:
      return poplar::SIGNED_CHAR;
    case TRANSOM_INT32:
      return poplar::INT;
    case TRANSOM_INT64:
      return poplar::LONGLONG;
    case TRANSOM_UINT32:
      return poplar::UNSIGNED_INT;
    case TRANSOM_FLOAT16:
      return poplar::HALF;
    case TRANSOM_FLOAT32:
      return poplar::FLOAT;
    default:
      fail(TRANSOM_UNSUPPORTED, "the machine has no numbers of type {}", backend::dtype_name(dtype));
  }
}

std::vector<size_t> extents_of(const Shape& shape) { return {shape.begin(), shape.end()}; }

Lowering::Lowering(const poplar::Target& target) : graph_(target) {
  popops::addCodelets(graph_);
  poplin::addCodelets(graph_);
  poprand::addCodelets(graph_);
  popsparse::addCodelets(graph_);
  const unsigned tiles = target.getTilesPerIPU();
  for (unsigned ipu = 0; ipu < target.getNumIPUs(); ++ipu)
    ipus_.push_back(graph_.createVirtualGraph(ipu * tiles, (ipu + 1) * tiles));
  next_tile_.resize(ipus_.size());
}

void Lowering::choose_ipu(uint32_t ipu) { ipu_ = std::min(ipu, static_cast<uint32_t>(ipus_.size() - 1)); }

poplar::OptionFlags Lowering::product_options() const {
  const IpuConfig& config = ipu_config();
  const double proportion =
      config.matmul_proportion[config.matmul_proportion.size() > ipu_ ? ipu_ : config.matmul_proportion.size() - 1];
  return {{"partialsType", config.enable_half_partials ? "half" : "float"},
          {"availableMemoryProportion", fmt::format("{}", proportion)}};
}

Lowering::Value& Lowering::value(int32_t index) {
  if (index < 0) fail(TRANSOM_INVALID_ARGUMENT, "expected a value of the graph, found {}", index);
  if (static_cast<size_t>(index) >= values_.size()) values_.resize(static_cast<size_t>(index) + 1);
  return values_[static_cast<size_t>(index)];
}

Tensor Lowering::variable(poplar::Type type, const std::vector<size_t>& shape, const std::string& name, size_t grain) {
  const Tensor made = graph().addVariable(type, shape, name);
  if (made.numElements() == 0) return made;
  // As mapTensorLinearly has it where no grain is given. What needs few tiles starts behind the one before, so that the
  // first tiles do not hold a part of everything.
  const poplar::Target& target = graph().getTarget();
  const unsigned least = grain <= 1 ? std::max(1u, 128 / std::max(1u, target.getTypeSize(type))) : 1;
  const auto together = static_cast<unsigned>(grain <= 1 ? target.getVectorWidth(type) : grain);
  const size_t tiles = (made.numElements() + std::max(least, together) - 1) / std::max(least, together);
  unsigned& next = next_tile_[ipu_];
  if (tiles >= target.getNumTiles()) {
    poputil::mapTensorLinearlyWithOffset(graph(), made, least, together, 0);
    return made;
  }
  poputil::mapTensorLinearlyWithOffset(graph(), made, least, together, next);
  next = (next + static_cast<unsigned>(tiles)) % target.getNumTiles();
  return made;
}

Tensor Lowering::constant(poplar::Type type, double value) {
  const Tensor made = graph().addConstant(type, {}, value, "constant");
  graph().setTileMapping(made, 0);
  return made;
}

void Lowering::fill(const Tensor& tensor, double real, int64_t integer, const std::string& name) {
  if (tensor.numElements() == 0) return;
  const poplar::Type type = tensor.elementType();
  if (type == poplar::FLOAT || type == poplar::HALF) popops::fill(graph(), tensor, program_, real, name);
  else popops::fill(graph(), tensor, program_, static_cast<long long>(integer), name);
}

void Lowering::copy(const Tensor& from, const Tensor& to, const std::string& name) {
  if (to.numElements()) program_.add(poplar::program::Copy(from, to, false, name + "/copy"));
}

Tensor Lowering::dense(const Tensor& tensor, const std::string& name, size_t grain) {
  const Tensor made = variable(tensor.elementType(), tensor.shape(), name, grain);
  copy(tensor, made, name);
  return made;
}

Tensor Lowering::cast(const Tensor& tensor, poplar::Type type, const std::string& name) {
  if (tensor.elementType() == type) return tensor;
  if (tensor.numElements() == 0) return variable(type, tensor.shape(), name);
  return popops::cast(graph(), tensor, type, program_, name);
}

Tensor Lowering::reshaped(const Tensor& tensor, const std::vector<size_t>& shape, const std::string& name) {
  if (tensor.isContiguous() || tensor.numElements() <= 64) return tensor.reshape(shape);
  return dense(tensor, name).reshape(shape);
}

Tensor Lowering::broadcast(Tensor tensor, const std::vector<size_t>& shape) {
  for (unsigned axis = 0; axis < shape.size(); ++axis)
    if (tensor.dim(axis) != shape[axis]) tensor = tensor.broadcast(static_cast<unsigned>(shape[axis]), axis);
  return tensor;
}

Tensor Lowering::here(Value& value, const std::string& name) {
  if (!value.tensor.valid() || value.ipu == ipu_ || value.tensor.numElements() <= 1) return value.tensor;
  Tensor& copied = value.elsewhere[ipu_];
  if (!copied.valid()) copied = dense(value.tensor, fmt::format("{}/to IPU {}", name, ipu_));
  return copied;
}

poplar::program::Sequence Lowering::add_input(int32_t index, const Type& type, size_t i) {
  const std::string name = fmt::format("input{}", i);
  const poplar::Type element = device_type(type.dtype);
  const Tensor made = variable(element, extents_of(type.shape), name);
  value(index) = {made, ipu_, {}, {}};
  poplar::program::Sequence fetch;
  if (made.numElements())
    fetch.add(poplar::program::Copy(graph().addHostToDeviceFIFO(name, element, made.numElements()), made));
  return fetch;
}

poplar::program::Sequence Lowering::add_blocks(int32_t index, const Type& type, const BlockMask& mask, size_t i) {
  const int64_t count = static_cast<int64_t>(mask.count);
  blocks_[index] = &mask;
  return add_input(index, {type.dtype, {count, BlockMask::kBlock * BlockMask::kBlock}}, i);
}

poplar::program::Sequence Lowering::add_streamed_input(int32_t index, const Type& type, size_t i) {
  if (type.count() == 0) return add_input(index, type, i);
  value(index) = {
      {},
      ipu_,
      {},
      graph_.addRemoteBuffer(fmt::format("input{}", i), device_type(type.dtype), static_cast<size_t>(type.count()))};
  return poplar::program::Sequence();
}

void Lowering::round_stochastically() {
  const Tensor seed = graph_.addVariable(poplar::UNSIGNED_INT, {2}, kRoundingSeed);
  graph_.setTileMapping(seed, 0);
  program_.add(poplar::program::Copy(graph_.addHostToDeviceFIFO(kRoundingSeed, poplar::UNSIGNED_INT, 2), seed));
  poprand::setSeed(graph_, seed, 0, program_, kRoundingSeed);
  poplar::setStochasticRounding(graph_, program_, true, kRoundingSeed);
}

void Lowering::load(Value& value, const Type& type) {
  value.tensor = variable(device_type(type.dtype), extents_of(type.shape), value.remote->handle());
  value.ipu = ipu_;
  program_.add(poplar::program::Copy(*value.remote, value.tensor));
  value.remote.reset();
}

const Tensor& Lowering::leaving(int32_t index) {
  const Tensor& made = value(index).tensor;
  if (!made.valid()) fail(TRANSOM_INVALID_ARGUMENT, "value {}: expected a node that computes the output", index);
  return made;
}

void Lowering::add_streamed_output(int32_t index, const Type& type, size_t i) {
  const Tensor& made = leaving(index);
  if (made.numElements() == 0) return;
  program_.add(poplar::program::Copy(
      made, graph_.addRemoteBuffer(fmt::format("output{}", i), device_type(type.dtype), made.numElements())));
}

void Lowering::add_output(int32_t index, const Type& type, size_t i) {
  const Tensor& made = leaving(index);
  if (made.numElements() == 0) return;
  const std::string name = fmt::format("output{}", i);
  program_.add(
      poplar::program::Copy(made, graph().addDeviceToHostFIFO(name, device_type(type.dtype), made.numElements())));
}

void Lowering::lower(const Node& node, const transom_node& c_node) {
  Work work{node, {}, std::vector<Tensor>(c_node.outputs_count), c_node.region};
  for (size_t i = 0; i < c_node.inputs_count; ++i) {
    Value& input = value(c_node.inputs[i]);
    if (input.remote) load(input, node.input(i));
    work.inputs.push_back(here(input, node.place()));
    if (!work.inputs.back().valid())
      fail(TRANSOM_INVALID_ARGUMENT, "{}: expected input {} to be computed before", node.place(), i);
  }
  if (table_ >= 0 && c_node.outputs_count == 1) {  // products with the table, and those that give its gradient
    const Shape &shape = table_shape_, &made = node.output().shape;
    bool touches = made == shape || made == Shape{shape[1], shape[0]};
    for (size_t i = 0; i < c_node.inputs_count; ++i) touches = touches || c_node.inputs[i] == table_;
    if (touches) work.vocabulary = static_cast<size_t>(shape[0]);
  }
  if (node.op() == "linear")
    if (const auto found = blocks_.find(c_node.inputs[1]); found != blocks_.end()) work.blocks = found->second;
  for (size_t i = 0; i < c_node.outputs_count; ++i) device_type(node.output(i).dtype);
  bool empty = true;
  for (const Type& type : node.outputs()) empty = empty && type.count() == 0;
  if (empty) {
    for (size_t i = 0; i < c_node.outputs_count; ++i)
      work.outputs[i] = variable(device_type(node.output(i).dtype), extents_of(node.output(i).shape), node.place());
  } else {
    lower_whole(*this, work);
  }
  for (size_t i = 0; i < c_node.outputs_count; ++i) {
    if (work.outputs[i].shape() != extents_of(node.output(i).shape) ||
        work.outputs[i].elementType() != device_type(node.output(i).dtype))
      fail(TRANSOM_INTERNAL, "{}: expected a result of {}, found {} of {}", node.place(), to_string(node.output(i)),
           work.outputs[i].elementType().toString(), work.outputs[i].shapeToString());
    value(c_node.outputs[i]) = {work.outputs[i], ipu_, {}, {}};
  }
}

bool claims_composite(std::string_view op, std::span<const transom_value> inputs, std::span<const transom_attribute>) {
  const auto plain = [&](const transom_value& value) {
    return value.dtype == TRANSOM_FLOAT32 || value.dtype == TRANSOM_FLOAT16;
  };
  if (op == "fusion") {
    for (const transom_value& value : inputs)
      if (value.dtype == TRANSOM_BFLOAT16 || value.dtype == TRANSOM_FLOAT64) return false;
    return true;
  }
  return op == "linear" && !inputs.empty() && plain(inputs[0]);
}

bool supports_node(const poplar::Target& target, const transom_graph& graph) {
  try {
    Lowering lowering(target);
    for (size_t i = 0; i < graph.inputs_count; ++i)
      lowering.add_input(graph.inputs[i], backend::type_of(graph, graph.inputs[i]), i);
    for (const transom_node& c_node : plugin::Nodes(graph)) lowering.lower(Node(graph, c_node), c_node);
    return true;
  } catch (const backend::Failure& failure) {
    return failure.status() != TRANSOM_UNSUPPORTED;
  } catch (const std::exception&) {
    return true;  // compiling says what is wrong
  }
}

}  // namespace transom::ipu
