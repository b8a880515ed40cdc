// SPDX-License-Identifier: Apache-2.0
#include "models/onnx/proto/write_model.h"

#include "base/error.h"
#include "base/protobuf/wire_writer.h"
#include "models/onnx/proto/element_type.h"

namespace transom::onnx {
namespace {

constexpr int64_t kIrVersion = 10;  // the standard's for opset 23; a floor for features alone
constexpr uint64_t kAlignment = 4096, kLeastExternal = 1024;

void add_entry(WireWriter& writer, int field, std::string_view key, std::string_view value) {
  WireWriter entry;
  entry.bytes(1, key);
  entry.bytes(2, value);
  writer.message(field, entry);
}

// The weights that lie outside of the model, one behind the other.
class ExternalData {
 public:
  explicit ExternalData(fs::path path) : path_(std::move(path)), file_(path_) {}

  // Where the bytes begin.
  uint64_t add(std::span<const std::byte> bytes) {
    const std::string padding((kAlignment - size_ % kAlignment) % kAlignment, '\0');
    file_.write(padding);
    const uint64_t begin = size_ + padding.size();
    file_.write(bytes);
    size_ = begin + bytes.size();
    return begin;
  }
  std::string name() const { return path_.filename().string(); }
  void commit() { file_.commit(); }

 private:
  fs::path path_;
  AtomicFile file_;
  uint64_t size_ = 0;
};

WireWriter tensor(const std::string& name, const TensorView& view, ExternalData* external) {
  WireWriter writer;
  for (const int64_t extent : view.shape) writer.number(1, extent);
  writer.number(2, static_cast<int64_t>(element_type_of(view.dtype)));
  writer.bytes(8, name);
  if (external && view.bytes.size() >= kLeastExternal) {
    add_entry(writer, 13, "location", external->name());
    add_entry(writer, 13, "offset", std::to_string(external->add(view.bytes)));
    add_entry(writer, 13, "length", std::to_string(view.bytes.size()));
    writer.number(14, 1);
  } else {
    writer.bytes(9, {reinterpret_cast<const char*>(view.bytes.data()), view.bytes.size()});
  }
  return writer;
}

// AttributeProto; its field `type` says which of the others holds the value.
WireWriter attribute(const std::string& name, const WrittenAttribute& value) {
  WireWriter writer;
  writer.bytes(1, name);
  if (const auto* number = std::get_if<int64_t>(&value)) {
    writer.number(3, *number);
    writer.number(20, 2);
  } else if (const auto* real = std::get_if<float>(&value)) {
    writer.number32(2, *real);
    writer.number(20, 1);
  } else if (const auto* text = std::get_if<std::string>(&value)) {
    writer.bytes(4, *text);
    writer.number(20, 3);
  } else if (const auto* numbers = std::get_if<std::vector<int64_t>>(&value)) {
    for (const int64_t one : *numbers) writer.number(8, one);
    writer.number(20, 7);
  } else if (const auto* reals = std::get_if<std::vector<float>>(&value)) {
    for (const float one : *reals) writer.number32(7, one);
    writer.number(20, 6);
  } else if (const auto* texts = std::get_if<std::vector<std::string>>(&value)) {
    for (const std::string& one : *texts) writer.bytes(9, one);
    writer.number(20, 8);
  } else {
    writer.message(5, tensor("", *std::get<std::shared_ptr<const TensorView>>(value), nullptr));
    writer.number(20, 4);
  }
  return writer;
}

WireWriter value_info(const WrittenValue& value);
WireWriter node(const WrittenNode& written);

// AttributeProto of a graph that has no weights of its own.
WireWriter graph_attribute(const std::string& name, const WrittenModel& model) {
  WireWriter graph, writer;
  for (const WrittenNode& each : model.nodes) graph.message(1, node(each));
  graph.bytes(2, model.name);
  for (const WrittenValue& input : model.inputs) graph.message(11, value_info(input));
  for (const WrittenValue& output : model.outputs) graph.message(12, value_info(output));
  writer.bytes(1, name);
  writer.message(6, graph);
  writer.number(20, 5);
  return writer;
}

WireWriter node(const WrittenNode& written) {
  WireWriter writer;
  for (const std::string& input : written.inputs) writer.bytes(1, input);
  for (const std::string& output : written.outputs) writer.bytes(2, output);
  writer.bytes(3, written.name);
  writer.bytes(4, written.operation);
  for (const auto& [name, value] : written.attributes) writer.message(5, attribute(name, value));
  for (const auto& [name, graph] : written.graphs) writer.message(5, graph_attribute(name, *graph));
  return writer;
}

WireWriter value_info(const WrittenValue& value) {
  WireWriter shape;
  for (const auto& extent : value.shape) {
    WireWriter axis;
    if (const auto* number = std::get_if<int64_t>(&extent)) axis.number(1, *number);
    else axis.bytes(2, std::get<std::string>(extent));
    shape.message(1, axis);
  }
  WireWriter tensor, type, writer;
  tensor.number(1, static_cast<int64_t>(element_type_of(value.dtype)));
  tensor.message(2, shape);
  type.message(1, tensor);
  writer.bytes(1, value.name);
  writer.message(2, type);
  return writer;
}

}  // namespace

void write_model(const fs::path& path, const WrittenModel& model, uint64_t inline_bytes) {
  uint64_t size = 0;
  for (const auto& [name, view] : model.initializers) size += view.bytes.size();
  std::optional<ExternalData> external;
  if (size > inline_bytes) external.emplace(path.string() + "_data");

  WireWriter graph;
  for (const WrittenNode& written : model.nodes) graph.message(1, node(written));
  graph.bytes(2, model.name);
  for (const auto& [name, view] : model.initializers)
    graph.message(5, tensor(name, view, external ? &*external : nullptr));
  for (const WrittenValue& input : model.inputs) graph.message(11, value_info(input));
  for (const WrittenValue& output : model.outputs) graph.message(12, value_info(output));

  WireWriter opset, writer;
  opset.bytes(1, "");
  opset.number(2, model.opset);
  writer.number(1, kIrVersion);
  writer.bytes(2, "transom");
  writer.message(7, graph);
  writer.message(8, opset);
  for (const auto& [key, value] : model.metadata) add_entry(writer, 14, key, value);

  if (external) external->commit();
  write_file(path, writer.text());
}

}  // namespace transom::onnx
