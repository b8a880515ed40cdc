// SPDX-License-Identifier: Apache-2.0
// Any bytes as the index of a sharded checkpoint: what is accepted names files of its own directory and can be printed.
#include <cstddef>
#include <cstdint>
#include <cstdlib>

#include "files/checkpoint/shard_index.h"
#include "transom/error.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace transom;
  try {
    const ShardIndex index = parse_shard_index({reinterpret_cast<const char*>(data), size}, "fuzz.index.json");
    for (const auto& [tensor, file] : index.files)
      if (file.empty() || file.find('/') != file.npos || file == "..") std::abort();
    if (parse_shard_index(print_shard_index(index), "printed").files != index.files) std::abort();
  } catch (const Error&) {
  }
  return 0;
}
