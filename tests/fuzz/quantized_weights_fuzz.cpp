// SPDX-License-Identifier: Apache-2.0
// A line of JSON as quantization_config and any bytes behind it as the tensors of a checkpoint: GPTQ, AWQ,
// compressed-tensors, fp8 and bitsandbytes are refused or read, and what is read is within the tensors.
#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "base/json/json.h"
#include "files/blocks/quantization_config.h"
#include "files/checkpoint/safetensors.h"
#include "transom/error.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace transom;
  const uint8_t* line = std::find(data, data + size, '\n');
  const std::string_view text(reinterpret_cast<const char*>(data), static_cast<size_t>(line - data));
  const size_t behind = std::min(text.size() + 1, size);
  try {
    const Config config = Config::parse(text, "fuzz: quantization_config");
    const auto file =
        SafetensorsFile::parse(std::as_bytes(std::span(data + behind, size - behind)), "fuzz.safetensors", nullptr);
    Checkpoint checkpoint("fuzz.safetensors");
    for (const auto& [name, view] : file.tensors()) checkpoint.add(name, view);
    read_quantized_weights(config, checkpoint);
    for (const auto& [name, weight] : checkpoint.compressed()) {
      const BlockLayout& layout = weight.matrix->layout();
      if (layout.rows > 0 && layout.rows * layout.depth < 1 << 20) dequantised_view(*weight.matrix);
    }
  } catch (const Error&) {
  }
  return 0;
}
