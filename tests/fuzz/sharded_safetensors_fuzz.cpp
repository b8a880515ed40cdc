// SPDX-License-Identifier: Apache-2.0
// Any bytes as two files of a sharded checkpoint: what is accepted is put together within its bounds. The first two
// bytes say where the second file begins.
#include <cstddef>
#include <cstdint>
#include <cstdlib>

#include "files/checkpoint/sharded_safetensors.h"
#include "transom/error.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace transom;
  if (size < 2) return 0;
  const auto bytes = std::as_bytes(std::span(data + 2, size - 2));
  const size_t border = std::min<size_t>(data[0] | data[1] << 8, bytes.size());
  try {
    std::vector<std::pair<std::string, SafetensorsFile>> files;
    files.emplace_back("first", SafetensorsFile::parse(bytes.first(border), "first", nullptr));
    if (border < bytes.size())
      files.emplace_back("second", SafetensorsFile::parse(bytes.subspan(border), "second", nullptr));
    const auto joined = ShardedTensorFiles::join(files, "fuzz");
    for (const auto& [name, whole] : joined.tensors()) {
      size_t expected = size_of(whole.dtype);
      for (const int64_t extent : whole.shape) expected *= static_cast<size_t>(extent);
      if (joined.whole(name).bytes.size() != expected) std::abort();
    }
  } catch (const Error&) {
  }
  return 0;
}
