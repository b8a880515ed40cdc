// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <utility>

#include "poplar/Type.hpp"

namespace poplar {

// A queue between the host and the device, by its handle.
class DataStream {
 public:
  DataStream() = default;
  DataStream(std::string handle, Type type, size_t elements, bool to_device)
      : handle_(std::move(handle)), type_(type), elements_(elements), to_device_(to_device) {}
  const std::string& handle() const { return handle_; }
  Type elementType() const { return type_; }
  size_t numElements() const { return elements_; }
  bool toDevice() const { return to_device_; }

 private:
  std::string handle_;
  Type type_;
  size_t elements_ = 0;
  bool to_device_ = false;
};

// Streaming memory beside the machine, by its handle: `repeats` rows of as many elements.
class RemoteBuffer {
 public:
  RemoteBuffer() = default;
  RemoteBuffer(std::string handle, Type type, size_t elements, size_t repeats)
      : handle_(std::move(handle)), type_(type), elements_(elements), repeats_(repeats) {}
  const std::string& handle() const { return handle_; }
  Type elementType() const { return type_; }
  size_t numElements() const { return elements_; }
  size_t getRepeats() const { return repeats_; }

 private:
  std::string handle_;
  Type type_;
  size_t elements_ = 0, repeats_ = 1;
};

}  // namespace poplar
