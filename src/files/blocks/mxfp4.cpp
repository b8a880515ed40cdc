// SPDX-License-Identifier: Apache-2.0
// MXFP4 as gpt-oss stores it: the experts of a layer in one tensor of codes, X_blocks u8 [E, rows, groups, 16], with a
// power of two for each 32 of them, X_scales u8 [E, rows, groups] (OCP Microscaling Formats, 2023). Two codes a byte,
// the first in the low half. Rows of gate_up_proj are of gate and up in turn.
#include <cmath>
#include <limits>

#include "base/error.h"
#include "files/blocks/quantization_config.h"
#include "files/blocks/quantized_parts.h"

namespace transom {
namespace {

constexpr int64_t kGroupBytes = 16, kGroupNumbers = 32;
const std::vector<float> kMxfp4Values = {0, .5, 1, 1.5, 2, 3, 4, 6, -0.0f, -.5, -1, -1.5, -2, -3, -4, -6};

// Every `step`th row from `first` on.
class Mxfp4Rows : public BlockMatrix {
 public:
  Mxfp4Rows(BlockLayout layout, TensorView blocks, TensorView scales, int64_t first, int64_t step)
      : BlockMatrix(std::move(layout)),
        blocks_(std::move(blocks)),
        scales_(std::move(scales)),
        first_(first),
        step_(step) {}

  void read_row(int64_t row, uint8_t* codes, float* scales, float* /*minima*/) const override {
    const int64_t groups = layout().groups(), from = (first_ + row * step_) * groups;
    for (int64_t i = 0; i < groups * kGroupBytes; ++i) {
      const auto both = static_cast<unsigned>(blocks_.bytes[static_cast<size_t>(from * kGroupBytes + i)]);
      codes[2 * i] = both & 15, codes[2 * i + 1] = static_cast<uint8_t>(both >> 4);
    }
    for (int64_t g = 0; g < groups; ++g)
      scales[g] = std::ldexp(1.0f, static_cast<int>(scales_.bytes[static_cast<size_t>(from + g)]) - 127);
  }
  void release() const override { release_mapped(blocks_.bytes); }

 private:
  TensorView blocks_, scales_;
  int64_t first_, step_;
};

// "….experts.down_proj" -> the module of one expert.
std::string expert_module(const std::string& experts, int64_t expert, const std::string& layer) {
  return fmt::format("{}{}.{}.weight", experts, expert, layer);
}

}  // namespace

void read_mxfp4(const Config&, Checkpoint& checkpoint) {
  constexpr std::string_view kGateUp = "gate_up_proj", kDown = "down_proj", kBlocks = "_blocks";
  constexpr int64_t kMost = std::numeric_limits<int64_t>::max() / 64;
  for (const std::string& module : modules_with(checkpoint, kBlocks)) {
    const std::string name = module + std::string(kBlocks), scale_name = module + "_scales";
    const bool joined = module.ends_with(kGateUp);
    if (!joined && !module.ends_with(kDown))
      fail("{}: tensor {}: expected codes of experts.gate_up_proj or experts.down_proj", checkpoint.where(),
           quoted(name));
    const TensorView blocks = take_part(checkpoint, name), scales = take_part(checkpoint, scale_name);
    expect_part(checkpoint, name, blocks, DType::kUInt8, {-1, -1, -1, kGroupBytes});
    const int64_t experts = blocks.shape[0], rows = blocks.shape[1], groups = blocks.shape[2], parts = joined ? 2 : 1;
    expect_part(checkpoint, scale_name, scales, DType::kUInt8, {experts, rows, groups});
    if (rows % parts != 0 || rows > kMost || groups > kMost)
      fail("{}: tensor {}: {} rows are not those of two layers", checkpoint.where(), quoted(name), rows);
    const std::string before = module.substr(0, module.size() - (joined ? kGateUp : kDown).size());
    for (int64_t expert = 0; expert < experts; ++expert)
      for (int64_t part = 0; part < parts; ++part) {
        BlockLayout layout{.rows = rows / parts,
                           .depth = groups * kGroupNumbers,
                           .bits = 4,
                           .group = kGroupNumbers,
                           .values = kMxfp4Values};
        const std::string layer = !joined ? "down_proj" : part == 0 ? "gate_proj" : "up_proj";
        checkpoint.add_compressed(
            expert_module(before, expert, layer),
            {std::make_shared<Mxfp4Rows>(std::move(layout), blocks, scales, expert * rows + part, parts)});
      }
  }
}

}  // namespace transom
