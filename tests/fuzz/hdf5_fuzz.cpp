// SPDX-License-Identifier: Apache-2.0
// Any bytes as an HDF5 file: every dataset that is accepted must lie inside of it and have the size of its shape.
#include <cstddef>
#include <cstdint>
#include <cstdlib>

#include "files/foreign/tensorflow/hdf5_file.h"
#include "transom/error.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace transom;
  try {
    for (const auto& [name, view] : parse_hdf5(std::as_bytes(std::span(data, size)), "fuzz.h5", nullptr)) {
      size_t bytes = size_of(view.dtype);
      for (const int64_t extent : view.shape) bytes *= static_cast<size_t>(extent);
      if (bytes != view.bytes.size()) std::abort();
      unsigned sum = 0;
      for (const std::byte byte : view.bytes) sum += static_cast<unsigned>(byte);
      if (view.bytes.empty() && sum != 0) std::abort();  // so that the bytes are read
    }
  } catch (const Error&) {
  }
  return 0;
}
