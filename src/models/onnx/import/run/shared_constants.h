// SPDX-License-Identifier: Apache-2.0
// The constants of several files that make one model: those with the same elements are one value, so that a decoder's
// weights are in memory once, though three files hold them.
#pragma once

#include <mutex>
#include <unordered_map>
#include <vector>

#include "models/onnx/import/run/value.h"
#include "models/onnx/proto/model.h"

namespace transom::onnx {

// Any number of threads may call it at once.
class SharedConstants {
 public:
  // As onnx::value_of; where a tensor of the same type, shape and bytes was given before, its value.
  Value value_of(const TensorData& data, const std::string& where);

 private:
  struct Held {
    ElementType type;
    Shape shape;
    std::span<const std::byte> bytes;  // in the file
    std::shared_ptr<const void> owner;
    Value value;
  };
  std::mutex mutex_;
  std::unordered_map<size_t, std::vector<Held>> held_;  // by a digest of some of the bytes
};

}  // namespace transom::onnx
