// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <memory>
#include <string>

#include "base/files/files.h"
#include "models/onnx/proto/model.h"

namespace transom::onnx {

inline constexpr const char* kOnnxFile = "ONNX file";  // of errors

// What the messages of one file share while they are read.
struct FileContext {
  std::string where;                                                  // begins errors
  std::shared_ptr<const void> owner;                                  // of the bytes
  fs::path directory;                                                 // of external data; empty: none is allowed
  size_t nodes = 0;                                                   // read so far
  std::map<std::string, std::shared_ptr<const MappedFile>> external;  // by location
};

// Reads a TensorProto: one of its fields of values, or raw_data, or external data, checked against its shape.
std::shared_ptr<const TensorData> read_tensor(std::string_view bytes, FileContext& context);

// The bytes that a tensor of this type and shape has. Errors: a negative extent, or more than fits 63 bits.
uint64_t tensor_bytes(ElementType type, const std::vector<int64_t>& shape, const std::string& where);

}  // namespace transom::onnx
