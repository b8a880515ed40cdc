// SPDX-License-Identifier: Apache-2.0
#include "hpu/lowering/emitter.h"

#include <algorithm>
#include <cstring>

namespace transom::hpu {
namespace {

synDataType data_type_of(Element element) {
  switch (element) {
    case Element::kF32:
      return syn_type_single;
    case Element::kBF16:
      return syn_type_bf16;
    case Element::kF16:
      return syn_type_fp16;
    case Element::kI32:
      return syn_type_int32;
    case Element::kI64:
      return syn_type_int64;
    case Element::kI8:
      return syn_type_int8;
    case Element::kU8:
      return syn_type_uint8;
  }
  return 0;
}

Shape broadcast_shape(const Shape& x, const Shape& y) {
  if (x.size() != y.size()) fail(TRANSOM_INTERNAL, "operands of {} and {} axes", x.size(), y.size());
  Shape shape = x;
  for (size_t i = 0; i < shape.size(); ++i)
    if (shape[i] == 1) shape[i] = y[i];
  return shape;
}

}  // namespace

size_t size_of(Element element) {
  switch (element) {
    case Element::kF32:
    case Element::kI32:
      return 4;
    case Element::kBF16:
    case Element::kF16:
      return 2;
    case Element::kI64:
      return 8;
    default:
      return 1;
  }
}

const char* suffix_of(Element element) {
  static const char* const names[] = {"f32", "bf16", "f16", "i32", "i64", "i8", "u8"};
  return names[static_cast<size_t>(element)];
}

void unsupported(const std::string& what) { fail(TRANSOM_UNSUPPORTED, "{}", what); }

Element Emitter::element_of(transom_dtype dtype) const {
  switch (dtype) {
    case TRANSOM_FLOAT32:
      return Element::kF32;
    case TRANSOM_BFLOAT16:
      return Element::kBF16;
    case TRANSOM_FLOAT16:
      if (device_ == synDeviceGaudi) unsupported("the first Gaudi has no f16");
      return Element::kF16;
    case TRANSOM_INT32:
      return Element::kI32;
    case TRANSOM_INT64:
      return int64_ ? Element::kI64 : Element::kI32;
    case TRANSOM_BOOL:
    case TRANSOM_INT8:
      return Element::kI8;
    case TRANSOM_UINT8:
      return Element::kU8;
    default:
      unsupported(fmt::format("no kernel computes in {}", to_string({dtype, {}})));
  }
}

Shape Emitter::canonical(const Shape& shape) {
  if (shape.empty()) return {1};
  if (shape.size() > kMaximumRank) return {hpu::product(shape)};
  return shape;
}

Value Emitter::tensor(Element element, const Shape& shape) {
  if (shape.empty() || shape.size() > kMaximumRank || hpu::product(shape) == 0)
    unsupported(fmt::format("a tensor of shape [{}]", fmt::join(shape, ", ")));
  graph.tensors.push_back({data_type_of(element), {shape.rbegin(), shape.rend()}, {}, {}, -1});
  return {static_cast<int>(graph.tensors.size() - 1), element, shape};
}

std::vector<Value> Emitter::nodes(const std::string& guid, const std::vector<Value>& inputs,
                                  const std::vector<std::pair<Element, Shape>>& outputs, std::string params,
                                  std::vector<std::string> in_layouts, std::vector<std::string> out_layouts) {
  NodeSpec node{guid, {}, {}, std::move(params), std::move(in_layouts), std::move(out_layouts)};
  for (const Value& input : inputs) node.inputs.push_back(input.tensor);
  std::vector<Value> results;
  for (const auto& [element, shape] : outputs) {
    results.push_back(tensor(element, shape));
    node.outputs.push_back(results.back().tensor);
  }
  graph.nodes.push_back(std::move(node));
  return results;
}

Value Emitter::node(const std::string& guid, const std::vector<Value>& inputs, Element element, const Shape& shape) {
  return nodes(guid, inputs, {{element, shape}})[0];
}

// ---- element by element

Value Emitter::elementwise(const std::string& guid, const std::vector<Value>& inputs, Element element) {
  Shape shape = inputs[0].shape;
  for (const Value& input : inputs) shape = broadcast_shape(shape, input.shape);
  const Value made = node(guid, inputs, element, shape);
  graph.nodes.back().elementwise = true;
  return made;
}

Value Emitter::unary(std::string_view name, const Value& x) {
  return elementwise(typed(name, x.element), {x}, x.element);
}

Value Emitter::binary(std::string_view name, const Value& x, const Value& y) {
  return elementwise(typed(name, x.element), {x, y}, x.element);
}

Value Emitter::compare(std::string_view name, const Value& x, const Value& y) {
  return elementwise(typed(name, x.element), {x, y}, Element::kI8);
}

Value Emitter::where(const Value& condition, const Value& x, const Value& y) {
  return elementwise(typed("where_fwd", x.element), {condition, x, y}, x.element);
}

Value Emitter::cast(const Value& x, Element element) {
  if (x.element == element) return x;
  const auto direct = [&](const Value& from, Element to) {
    const bool truncates = is_floating(from.element) && !is_floating(to);
    return node(fmt::format("cast_{}_to_{}", suffix_of(from.element), suffix_of(to)), {from}, to, from.shape,
                synCastParams{truncates ? 4 : 0});
  };
  // f32 is the bridge between the 16-bit floats and everything else, i32 between f32 and the other integers.
  const bool half_from = is_floating(x.element) && x.element != Element::kF32;
  const bool half_to = is_floating(element) && element != Element::kF32;
  if (half_from && element != Element::kF32) return cast(cast(x, Element::kF32), element);
  if (half_to && x.element != Element::kF32) return cast(cast(x, Element::kF32), element);
  if (x.element == Element::kF32 && !is_floating(element) && element != Element::kI32)
    return cast(cast(x, Element::kI32), element);
  if (x.element == Element::kI64 && element != Element::kI32) return cast(cast(x, Element::kI32), element);
  if (element == Element::kI64 && x.element != Element::kI32) return cast(cast(x, Element::kI32), element);
  return direct(x, element);
}

// ---- constants

Value Emitter::number(Element element, double value, size_t rank) {
  const auto key = std::tuple(element, value, rank);
  if (value == value)
    if (const auto found = numbers_.find(key); found != numbers_.end()) return found->second;
  const Value made = full(element, value, Shape(rank, 1));
  if (value == value) numbers_.emplace(key, made);
  return made;
}

Value Emitter::full(Element element, double value, const Shape& shape) {
  if (element == Element::kI64 || element == Element::kU8) return cast(full(Element::kI32, value, shape), element);
  synConstantParams params{};
  if (is_floating(element)) params.value.f = static_cast<float>(value);
  else params.value.i = static_cast<int32_t>(value);
  return node(typed("constant", element), {}, element, shape, params);
}

Value Emitter::integers(const std::vector<int32_t>& values) {
  const Value made = tensor(Element::kI32, {static_cast<int64_t>(values.size())});
  graph.tensors.back().constant.assign(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(int32_t));
  return made;
}

Value Emitter::range(int64_t count) {
  if (const auto found = ranges_.find(count); found != ranges_.end()) return found->second;
  if (count > INT32_MAX) unsupported("more than 2^31 places along one axis");
  synRangeParams params{};
  params.limit.i = static_cast<int32_t>(count);
  params.delta.i = 1;
  const Value made = node("range_i32", {}, Element::kI32, {count}, params);
  ranges_.emplace(count, made);
  return made;
}

// ---- movement

Value Emitter::reshape(const Value& x, const Shape& shape) {
  if (x.shape == shape) return x;
  if (hpu::product(x.shape) != hpu::product(shape)) fail(TRANSOM_INTERNAL, "a reshape to another number of elements");
  return node("reshape", {x}, x.element, shape);
}

Value Emitter::transpose(const Value& x, const std::vector<size_t>& permutation) {
  const size_t rank = permutation.size();
  synTransposeParams params{{0, 1, 2, 3, 4}, static_cast<uint32_t>(rank)};
  Shape shape;
  for (size_t i = 0; i < rank; ++i) {
    shape.push_back(x.shape[permutation[i]]);
    params.permutation[rank - 1 - i] = static_cast<int32_t>(rank - 1 - permutation[i]);
  }
  if (std::is_sorted(permutation.begin(), permutation.end())) return x;
  return node("transpose", {x}, x.element, shape, params);
}

Value Emitter::broadcast(const Value& x, const Shape& shape) {
  if (x.shape == shape) return x;
  return node("broadcast", {x}, x.element, shape);
}

Value Emitter::slice(const Value& x, const Shape& starts, const Shape& limits, const Shape& strides) {
  const size_t rank = x.shape.size();
  synSliceParamsV2 params{};
  std::fill(std::begin(params.steps), std::end(params.steps), 1);
  Shape shape;
  for (size_t i = 0; i < rank; ++i) {
    const size_t axis = rank - 1 - i;  // of params.axes[axis] = axis
    params.axes[axis] = static_cast<uint32_t>(axis);
    params.starts[axis] = static_cast<TSize>(starts[i]);
    params.ends[axis] = static_cast<TSize>(limits[i]);
    params.steps[axis] = static_cast<TSize>(strides[i]);
    shape.push_back((limits[i] - starts[i] + strides[i] - 1) / strides[i]);
  }
  if (shape == x.shape) return x;
  return node("slice", {x}, x.element, shape, params);
}

Value Emitter::concatenate(const std::vector<Value>& parts, size_t axis) {
  if (parts.size() == 1) return parts[0];
  constexpr size_t kMostOperands = 32;  // more are joined in groups
  if (parts.size() > kMostOperands) {
    std::vector<Value> groups;
    for (size_t i = 0; i < parts.size(); i += kMostOperands)
      groups.push_back(
          concatenate({parts.begin() + static_cast<std::ptrdiff_t>(i),
                       parts.begin() + static_cast<std::ptrdiff_t>(std::min(i + kMostOperands, parts.size()))},
                      axis));
    return concatenate(groups, axis);
  }
  Shape shape = parts[0].shape;
  for (size_t i = 1; i < parts.size(); ++i) shape[axis] += parts[i].shape[axis];
  return node("concat", parts, parts[0].element, shape, synAxisParams{static_cast<uint32_t>(shape.size() - 1 - axis)});
}

Value Emitter::gather(const Value& x, const Value& indices, size_t axis) {
  Shape shape = x.shape;
  shape[axis] = indices.shape[0];
  return node(typed("gather_fwd", x.element), {x, cast(indices, Element::kI32)}, x.element, shape,
              synGatherParams{static_cast<int32_t>(shape.size() - 1 - axis)});
}

// ---- sums

Value Emitter::reduce(std::string_view name, const Value& x, const std::vector<size_t>& axes, Element element) {
  auto params = zeroed<synReductionParamsV2>();
  params.keepDim = true;
  Shape shape = x.shape;
  for (const size_t axis : axes) {
    params.dimMask |= 1u << (x.shape.size() - 1 - axis);
    shape[axis] = 1;
  }
  return node(typed(name, x.element), {x}, element, shape, params);
}

Value Emitter::product(const Value& x, const Value& y, bool transpose_x, bool transpose_y, Element element,
                       const Value* bias) {
  if (!is_floating(x.element)) unsupported("a matrix product of integers");
  const size_t rank = x.shape.size();
  Shape shape = x.shape;
  if (transpose_x) shape[rank - 2] = x.shape[rank - 1];
  shape[rank - 1] = y.shape[transpose_y ? rank - 2 : rank - 1];
  std::vector<Value> inputs{x, y};
  if (bias) inputs.push_back(*bias);
  return node(rank == 2 ? "gemm" : "batch_gemm", inputs, element, shape, synGEMMParams{transpose_x, transpose_y});
}

}  // namespace transom::hpu
