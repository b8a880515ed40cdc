// SPDX-License-Identifier: Apache-2.0
// bitsandbytes: 4-bit codes of nf4 or fp4 (Dettmers et al., 2023) with a scale for each block of the flattened matrix,
// which may be quantised themselves; 8-bit rows (LLM.int8(), Dettmers et al., 2022).
#include <algorithm>
#include <numeric>

#include "base/error.h"
#include "base/files/files.h"
#include "base/json/json.h"
#include "files/blocks/quantization_config.h"
#include "files/blocks/quantized_parts.h"

namespace transom {
namespace {

// The codes lie flat: a group of this matrix is a part of a block.
class FlatNibbles : public BlockMatrix {
 public:
  FlatNibbles(BlockLayout layout, TensorView codes, std::vector<float> scales, int64_t block)
      : BlockMatrix(std::move(layout)), codes_(std::move(codes)), scales_(std::move(scales)), block_(block) {}
  void read_row(int64_t row, uint8_t* codes, float* scales, float*) const override {
    const BlockLayout& l = layout();
    const int64_t first = row * l.depth;
    for (int64_t k = 0; k < l.depth; ++k) {
      const auto byte = static_cast<uint8_t>(codes_.bytes[static_cast<size_t>((first + k) / 2)]);
      codes[k] = (first + k) % 2 ? byte & 15 : byte >> 4;
    }
    for (int64_t g = 0; g < l.groups(); ++g) scales[g] = scales_[static_cast<size_t>((first + g * l.group) / block_)];
  }
  void release() const override { release_mapped(codes_.bytes); }

 private:
  TensorView codes_;
  std::vector<float> scales_;
  int64_t block_;
};

class ByteRows : public BlockMatrix {
 public:
  ByteRows(BlockLayout layout, TensorView codes, std::vector<float> scales)
      : BlockMatrix(std::move(layout)), codes_(std::move(codes)), scales_(std::move(scales)) {}
  void read_row(int64_t row, uint8_t* codes, float* scales, float*) const override {
    const int64_t depth = layout().depth;
    for (int64_t k = 0; k < depth; ++k)
      codes[k] = static_cast<uint8_t>(static_cast<uint8_t>(codes_.bytes[static_cast<size_t>(row * depth + k)]) ^ 0x80);
    scales[0] = scales_[static_cast<size_t>(row)];
  }
  void release() const override { release_mapped(codes_.bytes); }

 private:
  TensorView codes_;
  std::vector<float> scales_;
};

void read_nibbles(Checkpoint& checkpoint, const std::string& name, const std::string& type) {
  const std::string state_name = name + ".quant_state.bitsandbytes__" + type;
  const auto where = [&](const std::string& tensor) { return checkpoint.where() + ": tensor " + quoted(tensor); };
  const TensorView state = take_part(checkpoint, state_name);
  const Config fields =
      Config::parse({reinterpret_cast<const char*>(state.bytes.data()), state.bytes.size()}, where(state_name));
  const std::vector<int64_t> shape = fields.get_ints("shape");
  const int64_t block = fields.get_int("blocksize", 64);
  int64_t count = 0;
  if (shape.size() != 2 || shape[0] <= 0 || shape[1] <= 0 || __builtin_mul_overflow(shape[0], shape[1], &count) ||
      block <= 0)
    fail("{}: expected a shape of two extents and a blocksize above 0", where(state_name));
  const TensorView codes = take_part(checkpoint, name), map = take_part(checkpoint, name + ".quant_map"),
                   absmax = take_part(checkpoint, name + ".absmax");
  // The bytes may be stored as wider numbers (bnb_4bit_quant_storage).
  if (static_cast<int64_t>(codes.bytes.size()) != (count + 1) / 2)
    fail("{}: expected {} bytes for [{}, {}], found {}", where(name), (count + 1) / 2, shape[0], shape[1],
         codes.bytes.size());
  const int64_t blocks = (count + block - 1) / block;
  std::vector<float> scales;
  if (const std::optional<TensorView> nested = checkpoint.take(name + ".nested_absmax")) {
    const std::vector<float> outer = floats_of(*nested, where(name + ".nested_absmax")),
                             values = floats_of(take_part(checkpoint, name + ".nested_quant_map"), where(name));
    const int64_t size = fields.get_int("nested_blocksize", 256);
    const auto offset = static_cast<float>(fields.get_float("nested_offset", 0));
    if (absmax.dtype != DType::kUInt8 || values.size() != 256 || size <= 0 ||
        static_cast<int64_t>(absmax.bytes.size()) != blocks ||
        static_cast<int64_t>(outer.size()) != (blocks + size - 1) / size)
      fail("{}: expected {} codes of scales, 256 values and a scale for each {}", where(name + ".absmax"), blocks,
           size);
    for (int64_t i = 0; i < blocks; ++i)
      scales.push_back(values[static_cast<size_t>(absmax.bytes[static_cast<size_t>(i)])] *
                           outer[static_cast<size_t>(i / size)] +
                       offset);
  } else {
    scales = floats_of(absmax, where(name + ".absmax"));
    if (static_cast<int64_t>(scales.size()) != blocks)
      fail("{}: expected {} scales, found {}", where(name + ".absmax"), blocks, scales.size());
  }
  BlockLayout layout{.rows = shape[0], .depth = shape[1], .bits = 4, .group = std::gcd(block, shape[1])};
  layout.values = floats_of(map, where(name + ".quant_map"));
  if (layout.values.size() != 16) fail("{}: expected 16 values", where(name + ".quant_map"));
  checkpoint.add_compressed(name, {std::make_shared<FlatNibbles>(std::move(layout), codes, std::move(scales), block)});
}

}  // namespace

void read_bitsandbytes(const Config&, Checkpoint& checkpoint) {
  for (const std::string type : {"nf4", "fp4"})
    for (const std::string& name : modules_with(checkpoint, ".quant_state.bitsandbytes__" + type))
      read_nibbles(checkpoint, name, type);
  for (const std::string& module : modules_with(checkpoint, ".SCB")) {
    const TensorView codes = take_part(checkpoint, module + ".weight"),
                     row_scales = take_part(checkpoint, module + ".SCB");
    expect_part(checkpoint, module + ".weight", codes, DType::kInt8, {-1, -1});
    BlockLayout layout{
        .rows = codes.shape[0], .depth = codes.shape[1], .bits = 8, .group = std::max<int64_t>(codes.shape[1], 1)};
    std::vector<float> scales = floats_of(row_scales, checkpoint.where() + ": tensor " + quoted(module + ".SCB"));
    if (static_cast<int64_t>(scales.size()) != layout.rows)
      fail("{}: tensor {}: expected {} scales, found {}", checkpoint.where(), quoted(module + ".SCB"), layout.rows,
           scales.size());
    for (float& scale : scales) scale /= 127;
    checkpoint.take(module + ".weight_format");
    checkpoint.add_compressed(module + ".weight",
                              {std::make_shared<ByteRows>(std::move(layout), codes, std::move(scales))});
  }
}

}  // namespace transom
