// SPDX-License-Identifier: Apache-2.0
// An ONNX model to be written (onnx.proto of the ONNX standard, IR version 10).
#pragma once

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "base/files/files.h"
#include "files/checkpoint/tensor_view.h"

namespace transom::onnx {

// The forms from the fifth on come from files that were read.
using WrittenAttribute = std::variant<int64_t, float, std::string, std::vector<int64_t>, std::vector<float>,
                                      std::vector<std::string>, std::shared_ptr<const TensorView>>;
using WrittenAttributes = std::vector<std::pair<std::string, WrittenAttribute>>;

struct WrittenModel;
// Attributes that are graphs: their nodes, inputs and outputs are written, and see the names around the node.
using WrittenGraphs = std::vector<std::pair<std::string, std::shared_ptr<const WrittenModel>>>;

struct WrittenNode {
  std::string operation, name;
  std::vector<std::string> inputs, outputs;  // an empty name: an optional input that is absent
  WrittenAttributes attributes;
  WrittenGraphs graphs = {};
};

// An input or output: its name, type, and extents, which are numbers or names.
struct WrittenValue {
  std::string name;
  DType dtype;
  std::vector<std::variant<int64_t, std::string>> shape;
};

struct WrittenModel {
  int64_t opset = 23;
  std::string name;
  std::vector<WrittenNode> nodes;
  NamedViews initializers;
  std::vector<WrittenValue> inputs, outputs;
  std::map<std::string, std::string> metadata;
};

// Above this size weights go into a file of their own, "<name>_data" beside the model: protobuf ends at 2 GiB.
inline constexpr uint64_t kMaximumInlineBytes = uint64_t{3} << 29;

// Writes the model; weights of 1 KiB and more lie outside of it if there are more than `inline_bytes` of them, each at
// a multiple of 4096, so that runtimes can map them. Both files appear complete or not at all.
void write_model(const fs::path& path, const WrittenModel& model, uint64_t inline_bytes = kMaximumInlineBytes);

}  // namespace transom::onnx
