// SPDX-License-Identifier: Apache-2.0
#include "models/onnx/export/graph_builder.h"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <optional>
#include <span>

#include "base/error.h"
#include "base/numbers/half.h"

namespace transom::onnx {
namespace {

template <typename T>
TensorView view_of_values(DType dtype, std::vector<int64_t> shape, std::vector<T> values) {
  const auto held = std::make_shared<const std::vector<T>>(std::move(values));
  return {dtype, std::move(shape), std::as_bytes(std::span(*held)), held};
}

TensorView scalar_view(double value, DType dtype) {
  switch (dtype) {
    case DType::kFloat32:
      return view_of_values<float>(dtype, {}, {static_cast<float>(value)});
    case DType::kFloat64:
      return view_of_values<double>(dtype, {}, {value});
    case DType::kInt64:
      return view_of_values<int64_t>(dtype, {}, {static_cast<int64_t>(value)});
    case DType::kInt32:
      return view_of_values<int32_t>(dtype, {}, {static_cast<int32_t>(value)});
    case DType::kUInt32:
      return view_of_values<uint32_t>(dtype, {}, {static_cast<uint32_t>(value)});
    case DType::kInt8:
      return view_of_values<int8_t>(dtype, {}, {static_cast<int8_t>(value)});
    case DType::kUInt8:
      return view_of_values<uint8_t>(dtype, {}, {static_cast<uint8_t>(value)});
    case DType::kBool:
      return view_of_values<uint8_t>(dtype, {}, {static_cast<uint8_t>(value != 0)});
    case DType::kFloat16:
      return view_of_values<uint16_t>(dtype, {}, {Float16(static_cast<float>(value)).bits});
    case DType::kBFloat16:
      return view_of_values<uint16_t>(dtype, {}, {BFloat16(static_cast<float>(value)).bits});
  }
  fail(ErrorKind::kInternal, "a scalar of an unknown type");
}

std::string key_of(const std::string& operation, const std::vector<ValueId>& inputs,
                   const WrittenAttributes& attributes) {
  std::string key = operation + "(" + fmt::format("{}", fmt::join(inputs, ",")) + ")";
  for (const auto& [name, value] : attributes) {
    key += " " + name + "=";
    if (const auto* number = std::get_if<int64_t>(&value)) key += std::to_string(*number);
    else if (const auto* real = std::get_if<float>(&value)) key += fmt::format("{}", *real);
    else if (const auto* text = std::get_if<std::string>(&value)) key += *text;
    else key += fmt::format("{}", fmt::join(std::get<std::vector<int64_t>>(value), ","));  // the builder makes no other
  }
  return key;
}

// A matrix with its axes swapped.
TensorView turned(const TensorView& view) {
  const auto rows = static_cast<size_t>(view.shape[0]), columns = static_cast<size_t>(view.shape[1]);
  const size_t width = size_of(view.dtype);
  const auto copy = std::make_shared<std::vector<std::byte>>(view.bytes.size());
  constexpr size_t kBlock = 16;
  for (size_t first = 0; first < columns; first += kBlock)
    for (size_t row = 0; row < rows; ++row)
      for (size_t column = first; column < std::min(columns, first + kBlock); ++column)
        std::memcpy(copy->data() + (column * rows + row) * width, view.bytes.data() + (row * columns + column) * width,
                    width);
  return {view.dtype, {view.shape[1], view.shape[0]}, *copy, copy};
}

Extents constants(const std::vector<int64_t>& shape) {
  Extents extents;
  for (const int64_t extent : shape) extents.push_back(constant_extent(extent));
  return extents;
}

}  // namespace

ValueId GraphBuilder::add(Made made) {
  values_.push_back(std::move(made));
  return static_cast<ValueId>(values_.size()) - 1;
}

void GraphBuilder::remember_extents(ValueId value) {
  const Extents& shape = this->shape(value);
  for (size_t axis = 0; axis < shape.size(); ++axis)
    if (!is_constant(shape[axis]) && source_of_.emplace(shape[axis], sources_.size()).second)
      sources_.push_back({shape[axis], {value, static_cast<int64_t>(axis)}});
}

void GraphBuilder::declare_input(const std::string& name, const ValueType& type, const std::vector<std::string>& axes) {
  WrittenValue written{name, type.dtype, {}};
  for (size_t axis = 0; axis < type.shape.size(); ++axis) {
    if (is_constant(type.shape[axis])) {
      written.shape.emplace_back(type.shape[axis][0]);
    } else {
      written.shape.emplace_back(axes[axis]);
      axis_names_.emplace(type.shape[axis], axes[axis]);
    }
  }
  inputs_.push_back(std::move(written));
}

ValueId GraphBuilder::input(const std::string& name, const ValueType& type, const std::vector<std::string>& axes) {
  declare_input(name, type, axes);
  const ValueId value = add({name, type});
  remember_extents(value);
  return value;
}

// An initializer of the input's name is its default.
ValueId GraphBuilder::optional_input(const std::string& name, const ValueType& type,
                                     const std::vector<std::string>& axes) {
  declare_input(name, type, axes);
  TensorView ones = scalar_view(1, type.dtype);
  ones.shape.assign(type.shape.size(), 1);
  return expand(initializer(name, ones), type.shape);
}

ValueId GraphBuilder::initializer(const std::string& name, const TensorView& view) {
  initializers_.emplace_back(name, view);
  return add({name, {view.dtype, constants(view.shape)}, -1, static_cast<int>(initializers_.size()) - 1});
}

const TensorView& GraphBuilder::view_of(ValueId initializer) const {
  return initializers_[static_cast<size_t>(values_[static_cast<size_t>(initializer)].initializer)].second;
}

ValueId GraphBuilder::ints(const std::vector<int64_t>& values) {
  const std::string key = fmt::format("ints {}", fmt::join(values, ","));
  if (const auto found = known_.find(key); found != known_.end()) return found->second;
  const auto count = static_cast<int64_t>(values.size());
  const std::string name = fmt::format("/constants/{}", known_.size());
  return known_[key] = initializer(name, view_of_values<int64_t>(DType::kInt64, {count}, values));
}

ValueId GraphBuilder::scalar(double value, DType dtype) {
  const std::string key = fmt::format("scalar {} {}", value, static_cast<int>(dtype));
  if (const auto found = known_.find(key); found != known_.end()) return found->second;
  return known_[key] = initializer(fmt::format("/constants/{}", known_.size()), scalar_view(value, dtype));
}

std::vector<ValueId> GraphBuilder::nodes(const std::string& operation, const std::vector<ValueId>& inputs,
                                         const std::vector<ValueType>& types, const WrittenAttributes& attributes,
                                         const WrittenGraphs& graphs) {
  std::string key = key_of(operation, inputs, attributes);
  if (!graphs.empty()) key += fmt::format(" {}", nodes_.size());  // is like no other
  if (const auto found = known_.find(key); found != known_.end())
    return nodes_[static_cast<size_t>(values_[static_cast<size_t>(found->second)].node)].outputs;
  const auto index = static_cast<int>(nodes_.size());
  std::string scope = scope_;
  std::replace(scope.begin(), scope.end(), '.', '/');
  const std::string name = fmt::format("/{}{}{}_{}", scope, scope.empty() ? "" : "/", operation, index);
  Node node{operation, name, inputs, {}, attributes, graphs};
  for (size_t i = 0; i < types.size(); ++i)
    node.outputs.push_back(add({fmt::format("{}_output_{}", name, i), types[i], index}));
  nodes_.push_back(node);
  for (const ValueId output : node.outputs) remember_extents(output);
  known_[key] = node.outputs[0];
  return node.outputs;
}

ValueId GraphBuilder::node(const std::string& operation, const std::vector<ValueId>& inputs, const ValueType& type,
                           const WrittenAttributes& attributes) {
  return nodes(operation, inputs, {type}, attributes)[0];
}

std::string GraphBuilder::name_of_extent(const Extent& extent) const {
  if (const auto found = axis_names_.find(extent); found != axis_names_.end()) return found->second;
  for (const auto& [a, first] : axis_names_)
    for (const auto& [b, second] : axis_names_) {
      Extent sum;
      for (size_t s = 0; s < kSignatures; ++s) sum.push_back(a[s] + b[s]);
      if (sum == extent) return first + " + " + second;
    }
  return fmt::format("extent_{}", source_of_.at(extent));
}

void GraphBuilder::output(const std::string& name, ValueId value, DType dtype) {
  value = cast(value, dtype);
  const bool taken =
      std::any_of(outputs_.begin(), outputs_.end(), [&](const auto& other) { return other.second == value; });
  const Made& made = values_[static_cast<size_t>(value)];
  if (made.node < 0 || taken) value = node("Identity", {value}, made.type, {{"name", name}});
  WrittenValue written{name, dtype, {}};
  for (const Extent& extent : shape(value)) {
    if (is_constant(extent)) written.shape.emplace_back(extent[0]);
    else written.shape.emplace_back(name_of_extent(extent));
  }
  outputs_.emplace_back(std::move(written), value);
}

// A matrix that is read the other way round alone is stored so.
void GraphBuilder::turn_weights(std::vector<bool>& kept) {
  std::vector<int> uses(values_.size());
  for (size_t i = 0; i < nodes_.size(); ++i)
    for (const ValueId input : nodes_[i].inputs)
      if (kept[i] && input != kAbsent) ++uses[static_cast<size_t>(input)];
  for (const auto& [written, value] : outputs_) ++uses[static_cast<size_t>(value)];
  for (size_t i = 0; i < nodes_.size(); ++i) {
    if (!kept[i] || nodes_[i].operation != "Transpose") continue;
    const auto from = static_cast<size_t>(nodes_[i].inputs[0]), to = static_cast<size_t>(nodes_[i].outputs[0]);
    if (values_[from].initializer < 0 || uses[from] != 1 || values_[from].type.shape.size() != 2) continue;
    if (std::any_of(outputs_.begin(), outputs_.end(),
                    [&](const auto& o) { return static_cast<size_t>(o.second) == to; }))
      continue;
    TensorView& view = initializers_[static_cast<size_t>(values_[from].initializer)].second;
    view = turned(view);
    values_[to].name = values_[from].name;
    kept[i] = false;
  }
}

WrittenModel GraphBuilder::finish(const std::string& name) {
  for (const auto& [written, value] : outputs_) values_[static_cast<size_t>(value)].name = written.name;
  std::vector<bool> needed(values_.size());
  std::vector<ValueId> open;
  for (const auto& [written, value] : outputs_) open.push_back(value);
  std::vector<bool> kept(nodes_.size());
  while (!open.empty()) {
    const ValueId value = open.back();
    open.pop_back();
    if (value == kAbsent || needed[static_cast<size_t>(value)]) continue;
    needed[static_cast<size_t>(value)] = true;
    const int node = values_[static_cast<size_t>(value)].node;
    if (node < 0 || kept[static_cast<size_t>(node)]) continue;
    kept[static_cast<size_t>(node)] = true;
    for (const ValueId input : nodes_[static_cast<size_t>(node)].inputs) open.push_back(input);
  }
  turn_weights(kept);
  WrittenModel model{.opset = opset_, .name = name};
  for (size_t i = 0; i < nodes_.size(); ++i) {
    if (!kept[i]) continue;
    WrittenNode written{nodes_[i].operation, nodes_[i].scope, {}, {}, nodes_[i].attributes, nodes_[i].graphs};
    if (written.operation == "Identity") written.attributes.clear();
    for (const ValueId input : nodes_[i].inputs)
      written.inputs.push_back(input == kAbsent ? "" : values_[static_cast<size_t>(input)].name);
    while (!written.inputs.empty() && written.inputs.back().empty()) written.inputs.pop_back();
    for (const ValueId output : nodes_[i].outputs) written.outputs.push_back(values_[static_cast<size_t>(output)].name);
    model.nodes.push_back(std::move(written));
  }
  for (size_t i = 0; i < values_.size(); ++i)
    if (needed[i] && values_[i].initializer >= 0)
      model.initializers.push_back(std::move(initializers_[static_cast<size_t>(values_[i].initializer)]));
  model.inputs = std::move(inputs_);
  for (auto& [written, value] : outputs_) model.outputs.push_back(std::move(written));
  return model;
}

// ---- extents

ValueId GraphBuilder::from_source(const Source& source) {
  return node("Shape", {source.value}, {DType::kInt64, {constant_extent(1)}},
              {{"start", source.axis}, {"end", source.axis + 1}});
}

namespace {

using Numbers = std::vector<int64_t>;

// y = (a x + b) / c with small whole a and c, where it holds in every trace.
struct Line {
  int64_t a, b, c;
};
std::optional<Line> line_through(const Extent& x, const Extent& y) {
  for (size_t s = 1; s < kSignatures; ++s) {
    const int64_t dx = x[s] - x[0], dy = y[s] - y[0];
    if (dx == 0) continue;
    const int64_t divisor = std::gcd(dx, dy);
    Line line{dy / divisor, 0, dx / divisor};
    if (line.c < 0) line.a = -line.a, line.c = -line.c;
    line.b = line.c * y[0] - line.a * x[0];
    for (size_t k = 0; k < kSignatures; ++k)
      if (line.c * y[k] != line.a * x[k] + line.b) return {};
    if (line.a == 0) return {};
    return line;
  }
  return {};
}

}  // namespace

ValueId GraphBuilder::try_extent(const Extent& extent, int depth) {
  if (is_constant(extent)) return ints({extent[0]});
  if (const auto found = extents_.find(extent); found != extents_.end()) return found->second;
  const ValueType number{DType::kInt64, {constant_extent(1)}};
  const auto remember = [&](ValueId value) { return extents_[extent] = value; };
  if (const auto found = source_of_.find(extent); found != source_of_.end())
    return remember(from_source(sources_[found->second].second));
  const size_t count = sources_.size();
  for (size_t i = 0; i < count; ++i) {
    const auto line = line_through(sources_[i].first, extent);
    if (!line || std::abs(line->a) > (int64_t{1} << 32) || line->c > 4096) continue;
    ValueId value = from_source(sources_[i].second);
    if (line->a != 1) value = node("Mul", {value, ints({line->a})}, number);
    if (line->b != 0) value = node("Add", {value, ints({line->b})}, number);
    if (line->c != 1) value = node("Div", {value, ints({line->c})}, number);
    return remember(value);
  }
  if (depth == 0) return kAbsent;
  // A product, a sum or a difference with an extent that was seen.
  for (size_t i = 0; i < count; ++i) {
    const Extent known = sources_[i].first;
    Extent quotient, rest, over;
    bool divides = true;
    for (size_t s = 0; s < kSignatures; ++s) {
      divides = divides && known[s] != 0 && extent[s] % known[s] == 0;
      if (divides) quotient.push_back(extent[s] / known[s]);
    }
    if (!divides) continue;
    if (const ValueId other = try_extent(quotient, depth - 1); other != kAbsent)
      return remember(node("Mul", {from_source(sources_[i].second), other}, number));
  }
  for (size_t i = 0; i < count; ++i) {
    const Extent known = sources_[i].first;
    Extent rest, over;
    for (size_t s = 0; s < kSignatures; ++s) rest.push_back(extent[s] - known[s]), over.push_back(known[s] - extent[s]);
    if (const ValueId other = try_extent(rest, 0); other != kAbsent)
      return remember(node("Add", {from_source(sources_[i].second), other}, number));
    if (const ValueId other = try_extent(over, 0); other != kAbsent)
      return remember(node("Sub", {from_source(sources_[i].second), other}, number));
  }
  return kAbsent;
}

ValueId GraphBuilder::extent(const Extent& extent) {
  const ValueId value = try_extent(extent, 3);
  if (value == kAbsent)
    fail("export: {}: no form of the inputs' extents gives {} for the signatures that were traced",
         scope_.empty() ? "the model" : scope_, fmt::join(extent, ", "));
  return value;
}

ValueId GraphBuilder::extents(const Extents& extents) {
  std::vector<int64_t> numbers;
  std::vector<ValueId> parts;
  bool fixed = true;
  const auto flush = [&] {
    if (!numbers.empty()) parts.push_back(ints(numbers));
    numbers.clear();
  };
  for (const Extent& one : extents) {
    if (is_constant(one)) {
      numbers.push_back(one[0]);
      continue;
    }
    fixed = false;
    flush();
    parts.push_back(extent(one));
  }
  if (fixed) return ints(numbers);
  flush();
  if (parts.size() == 1) return parts[0];
  return node("Concat", parts, {DType::kInt64, {constant_extent(static_cast<int64_t>(extents.size()))}},
              {{"axis", int64_t{0}}});
}

// ---- moves

ValueId GraphBuilder::reshape(ValueId value, const Extents& shape) {
  // A chain of reshapes is one.
  while (true) {
    const int node = values_[static_cast<size_t>(value)].node;
    if (node < 0 || nodes_[static_cast<size_t>(node)].operation != "Reshape") break;
    value = nodes_[static_cast<size_t>(node)].inputs[0];
  }
  const ValueType from = type(value);
  if (from.shape == shape) return value;
  // 0 copies the extent of the same axis, -1 is what is left.
  std::vector<int64_t> target;
  size_t unknown = 0;
  for (size_t axis = 0; axis < shape.size(); ++axis) {
    if (is_constant(shape[axis])) target.push_back(shape[axis][0]);
    else if (axis < from.shape.size() && from.shape[axis] == shape[axis]) target.push_back(0);
    else target.push_back(-1), ++unknown;
  }
  const bool empty =
      std::any_of(shape.begin(), shape.end(), [](const Extent& e) { return is_constant(e) && e[0] == 0; });
  const ValueId to = unknown <= 1 && !empty ? ints(target) : extents(shape);
  return node("Reshape", {value, to}, {from.dtype, shape});
}

ValueId GraphBuilder::transpose(ValueId value, const std::vector<int64_t>& permutation) {
  if (std::is_sorted(permutation.begin(), permutation.end())) return value;
  ValueType type{this->type(value).dtype, {}};
  for (const int64_t axis : permutation) type.shape.push_back(shape(value)[static_cast<size_t>(axis)]);
  return node("Transpose", {value}, type, {{"perm", permutation}});
}

ValueId GraphBuilder::expand(ValueId value, const Extents& shape) {
  if (this->shape(value) == shape) return value;
  return node("Expand", {value, extents(shape)}, {type(value).dtype, shape});
}

ValueId GraphBuilder::cast(ValueId value, DType dtype) {
  if (type(value).dtype == dtype) return value;
  static const std::map<DType, int64_t> kNumbers = {
      {DType::kFloat32, 1}, {DType::kUInt8, 2},    {DType::kInt8, 3},     {DType::kInt32, 6},   {DType::kInt64, 7},
      {DType::kBool, 9},    {DType::kFloat16, 10}, {DType::kFloat64, 11}, {DType::kUInt32, 12}, {DType::kBFloat16, 16}};
  return node("Cast", {value}, {dtype, shape(value)}, {{"to", kNumbers.at(dtype)}});
}

}  // namespace transom::onnx
