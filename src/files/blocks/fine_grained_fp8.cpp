// SPDX-License-Identifier: Apache-2.0
// Fine-grained fp8 as DeepSeek-V3 and Transformers store it (arXiv 2412.19437).
#include <algorithm>

#include "base/error.h"
#include "base/numbers/float8.h"
#include "files/blocks/quantization_config.h"
#include "files/blocks/quantized_parts.h"
#include "files/blocks/unpacked_matrix.h"

namespace transom {

// A scale for each block of rows and inputs, the last of which may be short. It multiplies, whatever its name says.
void read_fine_grained_fp8(const Config& config, Checkpoint& checkpoint) {
  const std::vector<int64_t> block = config.get_ints("weight_block_size", {128, 128});
  if (block.size() != 2 || block[0] <= 0 || block[1] <= 0)
    fail("{}: weight_block_size: expected two numbers above 0", config.where());
  for (const std::string& module : modules_with(checkpoint, ".weight_scale_inv")) {
    const TensorView weight = take_part(checkpoint, module + ".weight");
    expect_part(checkpoint, module + ".weight", weight, DType::kUInt8, {-1, -1});
    const std::string name = module + ".weight_scale_inv";
    const TensorView scales = take_part(checkpoint, name);
    BlockLayout layout{.rows = weight.shape[0],
                       .depth = weight.shape[1],
                       .bits = 8,
                       .group = block[1],
                       .values = {float8_values().begin(), float8_values().end()}};
    UnpackedScales unpacked{.scales = scale_numbers(scales, checkpoint.where() + ": tensor " + quoted(name)),
                            .minima = {}};
    if (unpacked.scales.size() == 1) {
      layout.group = std::max<int64_t>(layout.depth, 1);
      unpacked.rows_of_scale = std::max<int64_t>(layout.rows, 1);
    } else {
      unpacked.scale_rows = (layout.rows + block[0] - 1) / block[0], unpacked.rows_of_scale = block[0];
      expect_part(checkpoint, name, scales, scales.dtype, {unpacked.scale_rows, layout.groups()});
    }
    checkpoint.add_compressed(module + ".weight", unpacked_weight(std::move(layout), std::move(unpacked), weight));
  }
}

}  // namespace transom
