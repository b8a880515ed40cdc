// SPDX-License-Identifier: Apache-2.0
// What an ONNX file says (onnx.proto of the ONNX standard): plain values, without meaning yet. Fields that only
// document are left out.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "models/onnx/proto/element_type.h"

namespace transom::onnx {

// TensorProto. `bytes` holds the elements as raw_data does (little-endian, types below 8 bits packed from the low bits
// on), whatever field they stood in; they lie in the mapped file where that is possible, and `owner` keeps them alive.
struct TensorData {
  std::string name;
  ElementType type = ElementType::kUndefined;
  std::vector<int64_t> shape;
  std::span<const std::byte> bytes;
  std::vector<std::string> strings;  // of a tensor of strings
  std::shared_ptr<const void> owner;
};

struct Graph;

enum class AttributeType : int32_t {
  kUndefined = 0,
  kFloat = 1,
  kInt = 2,
  kString = 3,
  kTensor = 4,
  kGraph = 5,
  kFloats = 6,
  kInts = 7,
  kStrings = 8,
  kTensors = 9,
  kGraphs = 10,
  kSparseTensor = 11,
  kSparseTensors = 12,
  kType = 13,
  kTypes = 14,
};

struct Attribute {
  std::string name;
  AttributeType type = AttributeType::kUndefined;
  std::string reference;  // within a function: the name of the attribute of the call that stands here
  float f = 0;
  int64_t i = 0;
  std::string s;
  std::vector<float> floats;
  std::vector<int64_t> ints;
  std::vector<std::string> strings;
  std::shared_ptr<const TensorData> tensor;
  std::shared_ptr<const Graph> graph;
};

struct Node {
  std::string name, op_type, domain;  // domain "" is the standard's own, ai.onnx
  std::string overload;
  std::vector<std::string> inputs, outputs;  // "" : absent
  std::vector<Attribute> attributes;
};

// ValueInfoProto. An extent is a number, or -1 with the name of a symbol (or none).
struct ValueInfo {
  enum class Kind { kUnknown, kTensor, kSequence, kOptional, kOther };
  struct Extent {
    int64_t value = -1;
    std::string symbol;
  };
  std::string name;
  Kind kind = Kind::kUnknown;
  ElementType type = ElementType::kUndefined;  // of the tensor, or of the innermost tensor
  std::optional<std::vector<Extent>> shape;    // of a tensor; none: of any rank
};

struct Graph {
  std::string name;
  std::vector<Node> nodes;
  std::vector<ValueInfo> inputs, outputs;
  std::vector<std::shared_ptr<const TensorData>> initializers;
};

// FunctionProto: an operator that the file defines by others.
struct Function {
  std::string name, domain, overload;
  std::vector<std::string> inputs, outputs;
  std::vector<Attribute> defaults;  // of attributes that a call may leave out
  std::vector<Node> nodes;
  std::map<std::string, int64_t> opsets;  // by domain; "" stands for ai.onnx
};

struct Model {
  std::string where;  // the path, for errors
  int64_t ir_version = 0;
  std::string producer;
  std::map<std::string, std::string> metadata;  // metadata_props: what an exporter says of the model
  std::map<std::string, int64_t> opsets;        // by domain; "" stands for ai.onnx
  Graph graph;
  std::vector<Function> functions;
};

}  // namespace transom::onnx
