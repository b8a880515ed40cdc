// SPDX-License-Identifier: Apache-2.0
// Any bytes as a GGUF file: tensors lie inside of it, and what is made of its metadata is refused or made.
#include <cstddef>
#include <cstdint>
#include <cstdlib>

#include "base/json/json.h"
#include "files/gguf/gguf_file.h"
#include "files/gguf/gguf_model.h"
#include "transom/error.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace transom;
  try {
    const auto file = GgufFile::parse(std::as_bytes(std::span(data, size)), "fuzz.gguf", nullptr);
    for (const GgufTensor& tensor : file.tensors()) {
      unsigned sum = 0;
      for (const std::byte byte : tensor.bytes) sum += static_cast<unsigned>(byte);
      if (tensor.bytes.empty() && sum != 0) std::abort();  // so that the bytes are read
    }
    const Json config = gguf_config(file);
    ContainerParts parts;
    add_gguf_tokenizer(file, parts);
    const Checkpoint checkpoint = gguf_checkpoint(file);
    for (const auto& [name, weight] : checkpoint.compressed()) {
      const BlockLayout& layout = weight.matrix->layout();
      if (layout.rows > 0 && layout.rows * layout.depth < 1 << 20) dequantised_view(*weight.matrix);
    }
  } catch (const Error&) {
  }
  return 0;
}
