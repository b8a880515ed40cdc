// SPDX-License-Identifier: Apache-2.0
#include "gpu/source/region_text.h"

#include <numeric>

#include "gpu/source/elementwise_text.h"

namespace transom::gpu {

using backend::fail;

Region::Region(const transom_graph& graph) {
  for (size_t i = 0; i < graph.values_count; ++i) types.push_back(backend::type_of(graph, static_cast<int32_t>(i)));
  const auto checked = [&](int32_t value) {
    backend::type_of(graph, value);  // refuses one that is none
    return static_cast<size_t>(value);
  };
  for (size_t i = 0; i < graph.inputs_count; ++i) inputs.push_back(checked(graph.inputs[i]));
  for (size_t i = 0; i < graph.outputs_count; ++i) outputs.push_back(checked(graph.outputs[i]));
  std::vector<bool> known(types.size(), false);
  for (const size_t input : inputs) known[input] = true;
  for (const transom_node& node : plugin::Nodes(graph)) {
    if (node.outputs_count != 1)
      fail(TRANSOM_UNSUPPORTED, "{}: expected one output inside a fusion, found {}", node.op, node.outputs_count);
    Member member{Node(graph, node), {}, checked(node.outputs[0])};
    for (size_t i = 0; i < node.inputs_count; ++i) {
      member.inputs.push_back(checked(node.inputs[i]));
      if (!known[member.inputs.back()])
        fail(TRANSOM_INVALID_ARGUMENT, "{}: expected inputs that are made before, found value {}", node.op,
             node.inputs[i]);
    }
    known[member.output] = true;
    members.push_back(std::move(member));
  }
  for (const size_t output : outputs)
    if (!known[output]) fail(TRANSOM_INVALID_ARGUMENT, "a fusion's output {} is made by none of its nodes", output);
}

Region::Region(const Node& node) {
  Member member{node, {}, node.input_count()};
  for (size_t i = 0; i < node.input_count(); ++i) {
    types.push_back(node.input(i));
    inputs.push_back(i);
    member.inputs.push_back(i);
  }
  types.push_back(node.output());
  outputs.push_back(member.output);
  members.push_back(std::move(member));
}

const Region::Member* Region::maker(size_t value) const {
  for (const Member& member : members)
    if (member.output == value) return &member;
  return nullptr;
}

std::string RegionText::at(size_t value, const std::string& place) {
  const auto found = names_.find({value, place});
  if (found != names_.end()) return found->second;
  const std::string computed_as = computed(value, place);
  const Region::Member* member = region_.maker(value);
  const bool same = member && (member->node.op() == "reshape" || member->node.op() == "broadcast");
  if (same) return names_[{value, place}] = computed_as;  // the name of another value already
  const std::string name = text_.fresh("v");
  text_.line("const {} {} = {};", compute_type(region_.types[value].dtype), name, computed_as);
  names_[{value, place}] = name;
  return name;
}

std::string RegionText::computed(size_t value, const std::string& place) {
  const Type& type = region_.types[value];
  for (size_t i = 0; i < region_.inputs.size(); ++i)
    if (region_.inputs[i] == value)
      return load(text_, type.dtype, text_.address(operands_.at(i), storage_type(type.dtype)),
                  type.count() == 1 ? "0" : place);
  const Region::Member* member = region_.maker(value);
  if (!member) fail(TRANSOM_INVALID_ARGUMENT, "a fusion reads a value that nothing makes");
  const Node& node = member->node;
  const std::string& op = node.op();
  if (op == "constant")
    return backend::is_floating(type.dtype) ? argument(text_, type.dtype, node.number("value"))
                                            : argument(text_, type.dtype, node.integer("int_value"));
  if (op == "iota") {
    const auto axis = static_cast<size_t>(node.integer("axis"));
    if (axis >= type.rank())
      fail(TRANSOM_INVALID_ARGUMENT, "iota: expected an axis below {}, found {}", type.rank(), axis);
    return converted(text_, TRANSOM_INT64, type.dtype, fmt::format("((i64){})", index_along(type.shape, axis, place)));
  }
  if (op == "reshape") return at(member->inputs.at(0), place);
  if (op == "broadcast")
    return at(member->inputs.at(0), place_in_small(region_.types[member->inputs[0]].shape, type.shape, place));
  if (op == "random_bits") {
    if (region_.types[member->inputs.at(0)] != Type{TRANSOM_INT64, {2}})
      fail(TRANSOM_INVALID_ARGUMENT, "random_bits: expected a key of i64[2], found {}",
           backend::to_string(region_.types[member->inputs[0]]));
    const std::string seed = at(member->inputs[0], "0"), offset = at(member->inputs[0], "1");
    return fmt::format("{}({}, {}, (i64){})", text_.use("philox"), seed, offset, place);
  }
  std::vector<transom_dtype> from;
  std::vector<std::string> operands;
  for (const size_t input : member->inputs) {
    if (region_.types[input].count() != type.count())
      fail(TRANSOM_INVALID_ARGUMENT, "{}: expected operands of one size, found {} and {}", op,
           backend::to_string(region_.types[input]), backend::to_string(type));
    from.push_back(region_.types[input].dtype);
    operands.push_back(at(input, place));
  }
  return elementwise(text_, op, from, type.dtype, operands);
}

std::string RegionText::index_along(const Shape& shape, size_t axis, const std::string& place) {
  const int64_t inner = backend::product(shape, axis + 1, shape.size());
  const int64_t outer = backend::product(shape, 0, axis);
  std::string index = inner == 1 ? place : fmt::format("({} / {})", place, text_.number(inner));
  if (outer != 1) index = fmt::format("({} % {})", index, text_.number(shape[axis]));
  return index;
}

// Neighbouring axes that are both repeated, or both not, count as one.
std::string RegionText::place_in_small(const Shape& small, const Shape& large, const std::string& place) {
  if (small.size() != large.size())
    fail(TRANSOM_INVALID_ARGUMENT, "broadcast: expected the same rank, found {} and {}", small.size(), large.size());
  struct Axis {
    int64_t extent;
    bool repeated;
  };
  std::vector<Axis> axes;
  for (size_t i = 0; i < large.size(); ++i) {
    if (large[i] == 1 && small[i] == 1) continue;
    if (small[i] != large[i] && small[i] != 1)
      fail(TRANSOM_INVALID_ARGUMENT, "broadcast: expected an extent of 1 or {}, found {}", large[i], small[i]);
    const bool repeated = small[i] != large[i];
    if (!axes.empty() && axes.back().repeated == repeated) axes.back().extent *= large[i];
    else axes.push_back({large[i], repeated});
  }
  if (axes.empty() || (axes.size() == 1 && axes[0].repeated)) return "0";
  if (axes.size() == 1) return place;
  std::string key = place + ":";
  for (const Axis& axis : axes) key += fmt::format("{}{},", axis.repeated ? "r" : "k", axis.extent);
  if (const auto found = places_.find(key); found != places_.end()) return found->second;

  std::string sum;
  int64_t inner = 1, stride = 1;  // in the large and in the small shape
  for (size_t i = axes.size(); i-- > 0;) {
    if (!axes[i].repeated) {
      std::string index = inner == 1 ? place : fmt::format("({} / {})", place, text_.number(inner));
      if (i > 0) index = fmt::format("({} % {})", index, text_.number(axes[i].extent));
      if (stride != 1) index = fmt::format("{} * {}", index, text_.number(stride));
      sum += sum.empty() ? index : " + " + index;
      stride *= axes[i].extent;
    }
    inner *= axes[i].extent;
  }
  const std::string name = text_.fresh("p");
  text_.line("const idx {} = {};", name, sum);
  places_[key] = name;
  return name;
}

}  // namespace transom::gpu
