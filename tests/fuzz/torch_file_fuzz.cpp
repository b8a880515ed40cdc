// SPDX-License-Identifier: Apache-2.0
// Any bytes as a file of torch.save: the archive, its pickle, the tensors.
#include <cstddef>
#include <cstdint>
#include <cstdlib>

#include "files/checkpoint/torch_file.h"
#include "transom/error.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace transom;
  try {
    for (const auto& [name, view] : parse_torch_state_dict(std::as_bytes(std::span(data, size)), "fuzz.bin", nullptr)) {
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
