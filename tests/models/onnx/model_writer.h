// SPDX-License-Identifier: Apache-2.0
// Writes small ONNX files for tests: just enough of the wire format, by the field numbers of onnx.proto.
#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include "models/onnx/proto/element_type.h"

namespace transom::onnx::test {

class Message {
 public:
  Message& number(uint64_t field, uint64_t value) {
    varint(field << 3);
    varint(value);
    return *this;
  }
  Message& text(uint64_t field, std::string_view value) {
    varint(field << 3 | 2);
    varint(value.size());
    bytes_ += value;
    return *this;
  }
  Message& message(uint64_t field, const Message& value) { return text(field, value.bytes_); }
  Message& real(uint64_t field, float value) {
    varint(field << 3 | 5);
    bytes_.append(reinterpret_cast<const char*>(&value), 4);
    return *this;
  }
  const std::string& bytes() const { return bytes_; }

 private:
  void varint(uint64_t value) {
    for (; value >= 0x80; value >>= 7) bytes_ += static_cast<char>(value | 0x80);
    bytes_ += static_cast<char>(value);
  }
  std::string bytes_;
};

template <typename T>
Message tensor(const std::string& name, ElementType type, const std::vector<int64_t>& shape,
               const std::vector<T>& values) {
  Message result;
  for (const int64_t extent : shape) result.number(1, static_cast<uint64_t>(extent));
  result.number(2, static_cast<uint64_t>(type)).text(8, name);
  return result.text(9, {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T)});
}

// A value of a graph: extents of -1 are symbols.
inline Message value(const std::string& name, ElementType type, const std::vector<int64_t>& shape) {
  Message dims;
  for (const int64_t extent : shape)
    dims.message(1, extent < 0 ? Message().text(2, "n") : Message().number(1, static_cast<uint64_t>(extent)));
  const Message tensor_type = Message().number(1, static_cast<uint64_t>(type)).message(2, dims);
  return Message().text(1, name).message(2, Message().message(1, tensor_type));
}

inline Message integer(const std::string& name, int64_t value) {
  return Message().text(1, name).number(3, static_cast<uint64_t>(value)).number(20, 2);
}
inline Message real(const std::string& name, float value) {
  return Message().text(1, name).real(2, value).number(20, 1);
}
inline Message text(const std::string& name, const std::string& value) {
  return Message().text(1, name).text(4, value).number(20, 3);
}
inline Message graph(const std::string& name, const Message& value) {
  return Message().text(1, name).message(6, value).number(20, 5);
}
inline Message integers(const std::string& name, const std::vector<int64_t>& values) {
  Message result;
  result.text(1, name);
  for (const int64_t one : values) result.number(8, static_cast<uint64_t>(one));
  return result.number(20, 7);
}

inline Message node(const std::string& op_type, const std::vector<std::string>& inputs,
                    const std::vector<std::string>& outputs, const std::vector<Message>& attributes = {}) {
  Message result;
  for (const std::string& input : inputs) result.text(1, input);
  for (const std::string& output : outputs) result.text(2, output);
  result.text(3, op_type + "_node").text(4, op_type);
  for (const Message& attribute : attributes) result.message(5, attribute);
  return result;
}

struct GraphParts {
  std::vector<Message> nodes, inputs, outputs, initializers;
};

inline Message graph_of(const GraphParts& parts) {
  Message result;
  for (const Message& node : parts.nodes) result.message(1, node);
  result.text(2, "graph");
  for (const Message& tensor : parts.initializers) result.message(5, tensor);
  for (const Message& input : parts.inputs) result.message(11, input);
  for (const Message& output : parts.outputs) result.message(12, output);
  return result;
}

inline std::string model(const GraphParts& parts, int64_t opset = 18) {
  return Message()
      .number(1, 8)
      .message(7, graph_of(parts))
      .message(8, Message().text(1, "").number(2, static_cast<uint64_t>(opset)))
      .bytes();
}

}  // namespace transom::onnx::test
