// SPDX-License-Identifier: Apache-2.0
// Any bytes as a safetensors file: every tensor that is accepted must lie inside of it and have the size of its shape.
#include <cstddef>
#include <cstdint>
#include <cstdlib>

#include "files/checkpoint/safetensors.h"
#include "transom/error.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace transom;
  try {
    const auto file = SafetensorsFile::parse(std::as_bytes(std::span(data, size)), "fuzz.safetensors", nullptr);
    size_t all = 0;
    for (const auto& [name, view] : file.tensors()) {
      if (file.find(name) != &view) std::abort();
      size_t bytes = size_of(view.dtype);
      for (const int64_t extent : view.shape) bytes *= static_cast<size_t>(extent);
      if (bytes != view.bytes.size()) std::abort();
      unsigned sum = 0;
      for (const std::byte byte : view.bytes) sum += static_cast<unsigned>(byte);
      if (view.bytes.empty() && sum != 0) std::abort();  // so that the bytes are read
      all += bytes;
    }
    if (all > size) std::abort();
  } catch (const Error&) {
  }
  return 0;
}
