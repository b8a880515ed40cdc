// SPDX-License-Identifier: Apache-2.0
#include "models/onnx/proto/read_model.h"

#include "base/error.h"
#include "base/protobuf/wire_reader.h"
#include "models/onnx/proto/read_tensor.h"

namespace transom::onnx {
namespace {

constexpr int kMaximumDepth = 16;  // of graphs in attributes of nodes of graphs, and of types in types
constexpr size_t kMaximumNodes = 1'000'000;

Graph read_graph(std::string_view bytes, FileContext& context, int depth);

// TypeProto
void read_type(std::string_view bytes, ValueInfo& value, const std::string& where, int depth);

ValueInfo::Extent read_extent(std::string_view bytes, const std::string& where) {
  ValueInfo::Extent extent;
  WireReader reader(bytes, where, kOnnxFile);
  while (const auto field = reader.next()) {
    if (field->number == 1) extent.value = reader.integer(*field);
    if (field->number == 2) extent.symbol = reader.text(*field);
  }
  if (extent.value < 0) extent.value = -1;
  return extent;
}

void read_tensor_type(std::string_view bytes, ValueInfo& value, const std::string& where) {
  WireReader reader(bytes, where, kOnnxFile);
  while (const auto field = reader.next()) {
    if (field->number == 1) {
      const ElementTypeInfo* type = find_element_type(reader.integer(*field));
      if (type) value.type = type->type;
    }
    if (field->number == 2) {
      value.shape.emplace();
      WireReader shape(reader.text(*field), where, kOnnxFile);
      while (const auto extent = shape.next())
        if (extent->number == 1) value.shape->push_back(read_extent(shape.text(*extent), where));
    }
  }
}

void read_type(std::string_view bytes, ValueInfo& value, const std::string& where, int depth) {
  if (depth > kMaximumDepth) fail("{}: value {}: a type more than {} deep", where, quoted(value.name), kMaximumDepth);
  WireReader reader(bytes, where, kOnnxFile);
  while (const auto field = reader.next()) {
    using Kind = ValueInfo::Kind;
    const Kind kind = field->number == 1   ? Kind::kTensor
                      : field->number == 4 ? Kind::kSequence
                      : field->number == 9 ? Kind::kOptional
                                           : Kind::kOther;
    if (kind == Kind::kOther && field->number != 5 && field->number != 8) continue;
    if (value.kind == Kind::kUnknown) value.kind = kind;
    if (kind == Kind::kTensor) read_tensor_type(reader.text(*field), value, where);
    if (kind != Kind::kSequence && kind != Kind::kOptional) continue;
    WireReader inner(reader.text(*field), where, kOnnxFile);
    while (const auto element = inner.next())
      if (element->number == 1) read_type(inner.text(*element), value, where, depth + 1);
  }
}

ValueInfo read_value(std::string_view bytes, const std::string& where) {
  ValueInfo value;
  std::string_view type;
  WireReader reader(bytes, where, kOnnxFile);
  while (const auto field = reader.next()) {
    if (field->number == 1) value.name = reader.text(*field);
    if (field->number == 2) type = reader.text(*field);
  }
  read_type(type, value, where, 0);
  return value;
}

// Files of before IR 2 do not say the type of an attribute: it is that of the field that is filled.
AttributeType type_of(uint64_t field) {
  switch (field) {
    case 2:
      return AttributeType::kFloat;
    case 3:
      return AttributeType::kInt;
    case 4:
      return AttributeType::kString;
    case 5:
      return AttributeType::kTensor;
    case 6:
      return AttributeType::kGraph;
    case 7:
      return AttributeType::kFloats;
    case 8:
      return AttributeType::kInts;
    case 9:
      return AttributeType::kStrings;
    default:
      return AttributeType::kUndefined;
  }
}

Attribute read_attribute(std::string_view bytes, FileContext& context, int depth) {
  Attribute attribute;
  AttributeType seen = AttributeType::kUndefined;
  WireReader reader(bytes, context.where, kOnnxFile);
  while (const auto field = reader.next()) {
    if (const AttributeType type = type_of(field->number); type != AttributeType::kUndefined) seen = type;
    switch (field->number) {
      case 1:
        attribute.name = reader.text(*field);
        break;
      case 2:
        attribute.f = reader.number(*field);
        break;
      case 3:
        attribute.i = reader.integer(*field);
        break;
      case 4:
        attribute.s = reader.text(*field);
        break;
      case 5:
        attribute.tensor = read_tensor(reader.text(*field), context);
        break;
      case 6:
        attribute.graph = std::make_shared<const Graph>(read_graph(reader.text(*field), context, depth + 1));
        break;
      case 7:
        reader.add_floats(*field, attribute.floats);
        break;
      case 8:
        reader.add_integers(*field, attribute.ints);
        break;
      case 9:
        attribute.strings.emplace_back(reader.text(*field));
        break;
      case 20:
        attribute.type = static_cast<AttributeType>(reader.integer(*field));
        break;
      case 21:
        attribute.reference = reader.text(*field);
        break;
      default:
        break;
    }
  }
  if (attribute.type == AttributeType::kUndefined) attribute.type = seen;
  if (attribute.reference.empty() && ((attribute.type == AttributeType::kTensor && !attribute.tensor) ||
                                      (attribute.type == AttributeType::kGraph && !attribute.graph)))
    fail("{}: attribute {}: its value is missing", context.where, quoted(attribute.name));
  return attribute;
}

std::string domain_of(std::string_view text) { return text == "ai.onnx" ? std::string() : std::string(text); }

Node read_node(std::string_view bytes, FileContext& context, int depth) {
  if (++context.nodes > kMaximumNodes) fail("{}: has more than {} nodes", context.where, kMaximumNodes);
  Node node;
  WireReader reader(bytes, context.where, kOnnxFile);
  while (const auto field = reader.next()) {
    switch (field->number) {
      case 1:
        node.inputs.emplace_back(reader.text(*field));
        break;
      case 2:
        node.outputs.emplace_back(reader.text(*field));
        break;
      case 3:
        node.name = reader.text(*field);
        break;
      case 4:
        node.op_type = reader.text(*field);
        break;
      case 5:
        node.attributes.push_back(read_attribute(reader.text(*field), context, depth));
        break;
      case 7:
        node.domain = domain_of(reader.text(*field));
        break;
      case 8:
        node.overload = reader.text(*field);
        break;
      default:
        break;
    }
  }
  return node;
}

Graph read_graph(std::string_view bytes, FileContext& context, int depth) {
  if (depth > kMaximumDepth) fail("{}: graphs nest more than {} deep", context.where, kMaximumDepth);
  Graph graph;
  WireReader reader(bytes, context.where, kOnnxFile);
  while (const auto field = reader.next()) {
    switch (field->number) {
      case 1:
        graph.nodes.push_back(read_node(reader.text(*field), context, depth));
        break;
      case 2:
        graph.name = reader.text(*field);
        break;
      case 5:
        graph.initializers.push_back(read_tensor(reader.text(*field), context));
        break;
      case 11:
        graph.inputs.push_back(read_value(reader.text(*field), context.where));
        break;
      case 12:
        graph.outputs.push_back(read_value(reader.text(*field), context.where));
        break;
      case 15:
        fail("{}: a sparse initializer is not supported", context.where);
      default:
        break;
    }
  }
  return graph;
}

void read_opset(std::string_view bytes, std::map<std::string, int64_t>& opsets, const std::string& where) {
  std::string domain;
  int64_t version = 0;
  WireReader reader(bytes, where, kOnnxFile);
  while (const auto field = reader.next()) {
    if (field->number == 1) domain = domain_of(reader.text(*field));
    if (field->number == 2) version = reader.integer(*field);
  }
  opsets[domain] = version;
}

Function read_function(std::string_view bytes, FileContext& context) {
  Function function;
  WireReader reader(bytes, context.where, kOnnxFile);
  while (const auto field = reader.next()) {
    switch (field->number) {
      case 1:
        function.name = reader.text(*field);
        break;
      case 4:
        function.inputs.emplace_back(reader.text(*field));
        break;
      case 5:
        function.outputs.emplace_back(reader.text(*field));
        break;
      case 7:
        function.nodes.push_back(read_node(reader.text(*field), context, 0));
        break;
      case 9:
        read_opset(reader.text(*field), function.opsets, context.where);
        break;
      case 10:
        function.domain = domain_of(reader.text(*field));
        break;
      case 11:
        function.defaults.push_back(read_attribute(reader.text(*field), context, 0));
        break;
      case 13:
        function.overload = reader.text(*field);
        break;
      default:
        break;
    }
  }
  return function;
}

void read_metadata(std::string_view bytes, std::map<std::string, std::string>& metadata, const std::string& where) {
  std::string name, value;
  WireReader reader(bytes, where, kOnnxFile);
  while (const auto field = reader.next()) {
    if (field->number == 1) name = reader.text(*field);
    if (field->number == 2) value = reader.text(*field);
  }
  metadata.insert_or_assign(std::move(name), std::move(value));
}

}  // namespace

Model parse_model(std::string_view bytes, const std::string& where, std::shared_ptr<const void> owner,
                  const fs::path& directory) {
  FileContext context{.where = where, .owner = std::move(owner), .directory = directory, .external = {}};
  Model model;
  model.where = where;
  bool has_graph = false;
  WireReader reader(bytes, context.where, kOnnxFile);
  while (const auto field = reader.next()) {
    switch (field->number) {
      case 1:
        model.ir_version = reader.integer(*field);
        break;
      case 2:
        model.producer = reader.text(*field);
        break;
      case 7:
        require(!has_graph, "{}: is no ONNX file: it has two graphs", where);
        model.graph = read_graph(reader.text(*field), context, 0);
        has_graph = true;
        break;
      case 8:
        read_opset(reader.text(*field), model.opsets, where);
        break;
      case 14:
        read_metadata(reader.text(*field), model.metadata, where);
        break;
      case 25:
        model.functions.push_back(read_function(reader.text(*field), context));
        break;
      default:
        break;
    }
  }
  require(has_graph, "{}: is no ONNX file: it has no graph", where);
  return model;
}

Model read_model(const fs::path& path) {
  const auto file = MappedFile::open(path);
  const fs::path directory = path.has_parent_path() ? path.parent_path() : fs::path(".");
  return parse_model(file->text(), path.string(), file, directory);
}

}  // namespace transom::onnx
