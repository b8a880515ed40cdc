// SPDX-License-Identifier: Apache-2.0
// The formats of the compressed-tensors library (vLLM's): https://github.com/vllm-project/compressed-tensors. Which of
// them a weight has is told by its tensors.
#include <algorithm>
#include <cmath>
#include <limits>
#include <set>

#include "base/error.h"
#include "base/numbers/float8.h"
#include "files/blocks/compressed_tensors_scheme.h"
#include "files/blocks/quantization_config.h"
#include "files/blocks/quantized_parts.h"
#include "files/blocks/unpacked_matrix.h"

namespace transom {
namespace {

const std::vector<float> kFp4Values = {0, .5, 1, 1.5, 2, 3, 4, 6, -0.0f, -.5, -1, -1.5, -2, -3, -4, -6};

// Of codes of 6 bits: sign, two bits of exponent (bias 1), three of mantissa.
std::vector<float> fp6_values() {
  std::vector<float> values(256);
  for (size_t code = 0; code < 64; ++code) {
    const int exponent = static_cast<int>(code >> 3 & 3), mantissa = static_cast<int>(code & 7);
    const float magnitude =
        std::ldexp(static_cast<float>(exponent > 0 ? 8 + mantissa : mantissa), std::max(exponent, 1) - 4);
    values[code] = code & 32 ? -magnitude : magnitude;
  }
  return values;
}

class Reader {
 public:
  Reader(const Config& config, Checkpoint& checkpoint) : scheme_(config), checkpoint_(checkpoint) {}

  void read() {
    expect_codes(checkpoint_, {".weight_shape", ".weight_g_idx", ".weight_global_scale"}, ".weight_packed");
    for (const std::string& module : modules_with(checkpoint_, ".weight_packed")) {
      if (checkpoint_.find(module + ".weight_shape")) packed_words(module);
      else packed_floats(module);
    }
    for (const std::string& module : modules_with(checkpoint_, ".weight_scale"))
      if (const TensorView* weight = checkpoint_.find(module + ".weight")) {
        if (weight->dtype == DType::kInt8) bytes(module);
        else if (weight->dtype == DType::kUInt8) float8(module);
      }
    expect_codes(checkpoint_, {".weight_scale", ".weight_zero_point"}, ".weight");
    for (const char* ending : {".input_scale", ".input_zero_point", ".input_global_scale", ".k_scale", ".v_scale"})
      for (const std::string& module : modules_with(checkpoint_, ending)) checkpoint_.take(module + ending);
  }

 private:
  std::string where(const std::string& name) const { return checkpoint_.where() + ": tensor " + quoted(name); }

  // Scales [rows, groups] (or [rows], or one for all, or one for each block), and the size of a group.
  UnpackedScales scales_of(const std::string& name, int64_t rows, int64_t depth, int64_t& group, DType& dtype) {
    const TensorView view = take_part(checkpoint_, name);
    dtype = view.dtype;
    UnpackedScales unpacked{.scales = scale_numbers(view, where(name)), .minima = {}};
    const auto count = static_cast<int64_t>(unpacked.scales.size());
    const bool by_row = !view.shape.empty() && view.shape[0] == rows && count >= rows;
    const bool is_grid = by_row ? count % rows == 0 : count == 1 || view.shape.size() == 2;
    const ScalePart grid = by_row       ? ScalePart{rows, count / rows}
                           : count == 1 ? ScalePart{1, 1}
                           : is_grid    ? ScalePart{view.shape[0], view.shape[1]}
                                        : ScalePart{};
    const std::optional<ScalePart> part = is_grid ? scheme_.part_of_scale({rows, depth}, grid) : std::nullopt;
    if (!part) fail("{}: expected scales for {} rows, found {} numbers", where(name), rows, count);
    group = part->depth;
    unpacked.scale_rows = grid.rows, unpacked.rows_of_scale = part->rows;
    return unpacked;
  }

  std::optional<TensorView> zeros_of(const std::string& module) {
    const std::string name = module + ".weight_zero_point";
    if (scheme_.zeros_everywhere && !scheme_.bits.empty()) return take_part(checkpoint_, name);
    return checkpoint_.take(name);
  }

  void packed_words(const std::string& module) {
    const std::string name = module + ".weight_packed", shape_name = module + ".weight_shape";
    const TensorView packed = take_part(checkpoint_, name);
    const std::vector<int64_t> shape = integers_of(take_part(checkpoint_, shape_name), where(shape_name));
    if (shape.size() != 2 || shape[0] <= 0 || shape[1] <= 0) fail("{}: expected two extents", where(shape_name));
    const int64_t rows = shape[0], depth = shape[1];
    expect_part(checkpoint_, name, packed, DType::kInt32, {rows, -1});
    const int64_t row = packed.shape[1];
    constexpr int64_t kMost = std::numeric_limits<int64_t>::max() / 8 - 32;
    if (rows > kMost || depth > kMost) fail("{}: [{}, {}] is too large", where(shape_name), rows, depth);
    int64_t bits = 0;
    const std::set<int64_t> known = scheme_.bits.empty() ? std::set<int64_t>{1, 2, 3, 4, 5, 6, 7, 8} : scheme_.bits;
    for (const int64_t candidate : known)
      if (candidate >= 1 && candidate <= 8 && row == (depth * candidate + 31) / 32) bits = candidate;
    if (bits == 0)
      fail("{}: {} words a row of {} are not of {} bits, as config_groups says", where(name), row, depth,
           fmt::join(known, " or "));
    BlockLayout layout{.rows = rows, .depth = depth, .bits = bits > 4 ? 8 : 4};
    DType dtype;
    UnpackedScales unpacked = scales_of(module + ".weight_scale", rows, depth, layout.group, dtype);
    const int64_t groups = layout.groups();
    if (const std::optional<TensorView> zeros = zeros_of(module)) {
      layout.has_minima = true;
      std::vector<int64_t> points;
      if (zeros->dtype == DType::kInt8 && zeros->bytes.size() == unpacked.scales.size()) {  // one for all is not packed
        for (const std::byte byte : zeros->bytes)
          points.push_back(static_cast<int8_t>(byte) + (int64_t{1} << (bits - 1)));
      } else {
        expect_part(checkpoint_, module + ".weight_zero_point", *zeros, DType::kInt32,
                    {(unpacked.scale_rows * bits + 31) / 32, groups});
        const std::vector<uint32_t> words = words_of(*zeros);
        for (int64_t r = 0; r < unpacked.scale_rows; ++r)
          for (int64_t g = 0; g < groups; ++g)
            points.push_back(BitStream<std::vector<uint32_t>>{words, g, groups}(r, bits));
      }
      for (size_t i = 0; i < points.size(); ++i)
        unpacked.minima.push_back(-(unpacked.scales[i] * static_cast<float>(points[i])));
    }
    if (!layout.has_minima && dtype == DType::kFloat16) layout.scale_type = dtype;
    const std::string order_name = module + ".weight_g_idx";
    if (const std::optional<TensorView> g_idx = checkpoint_.take(order_name)) {
      const std::vector<int64_t> of_inputs = integers_of(*g_idx, where(order_name));
      if (static_cast<int64_t>(of_inputs.size()) != depth)
        fail("{}: expected {} numbers, found {}", where(order_name), depth, of_inputs.size());
      if (std::all_of(of_inputs.begin(), of_inputs.end(), [](int64_t g) { return g >= 0; }))  // -1: not in use
        layout.order = order_of_groups(of_inputs, layout.group, where(order_name));
    }
    const uint8_t shift =
        layout.has_minima ? 0 : static_cast<uint8_t>((layout.bits == 8 ? 128 : 8) - (1 << (bits - 1)));
    checkpoint_.add_compressed(module + ".weight",
                               unpacked_weight(std::move(layout), std::move(unpacked), packed,
                                               [words = StoredWords(packed), row, bits, shift](int64_t r, int64_t k) {
                                                 const BitStream<StoredWords> stream{words, r * row, 1};
                                                 return static_cast<uint8_t>(stream(k, bits) + shift);
                                               }));
  }

  // nvfp4, mxfp4 and mxfp6: two codes a byte or four in three, the first in the low bits; scales f8_e4m3 for groups of
  // 16 with one more for all, or powers of two for groups of 32.
  void packed_floats(const std::string& module) {
    const std::string name = module + ".weight_packed", scale_name = module + ".weight_scale";
    const TensorView packed = take_part(checkpoint_, name), scales = take_part(checkpoint_, scale_name);
    expect_part(checkpoint_, name, packed, DType::kUInt8, {-1, -1});
    const int64_t rows = packed.shape[0], row = packed.shape[1];
    expect_part(checkpoint_, scale_name, scales, DType::kUInt8, {rows, -1});
    const int64_t groups = scales.shape[1];
    const bool six = row == 24 * groups;
    BlockLayout layout{.rows = rows, .depth = six ? row / 3 * 4 : 2 * row, .bits = six ? 8 : 4};
    const auto part = scheme_.part_of_scale({rows, layout.depth}, {rows, groups});
    if (!part || layout.depth % groups != 0)
      fail("{}: {} groups do not fit rows of {} bytes", where(scale_name), groups, row);
    layout.group = part->depth;
    layout.values = six ? fp6_values() : kFp4Values;
    std::optional<TensorView> whole = checkpoint_.take(module + ".weight_global_scale");
    if (!whole && layout.group == 16) whole = take_part(checkpoint_, module + ".weight_global_scale");
    UnpackedScales unpacked{.scales = {}, .minima = {}, .scale_rows = rows};
    if (whole) {
      const std::vector<float> divisor = floats_of(*whole, where(module + ".weight_global_scale"));
      if (divisor.size() != 1)
        fail("{}: expected one number, found {}", where(module + ".weight_global_scale"), divisor.size());
      for (const std::byte byte : scales.bytes)
        unpacked.scales.push_back(float8_values()[static_cast<size_t>(byte)] / divisor[0]);
    } else {
      unpacked.scales = scale_numbers(scales, where(scale_name));
    }
    const int64_t bits = six ? 6 : 4;
    checkpoint_.add_compressed(
        module + ".weight",
        unpacked_weight(std::move(layout), std::move(unpacked), packed, [packed, row, bits](int64_t r, int64_t k) {
          const int64_t bit = k * bits, byte = r * row + bit / 8, within = bit % 8;
          unsigned both = static_cast<unsigned>(packed.bytes[static_cast<size_t>(byte)]);
          if (within + bits > 8) both |= static_cast<unsigned>(packed.bytes[static_cast<size_t>(byte + 1)]) << 8;
          return static_cast<uint8_t>(both >> within & ((1u << bits) - 1));
        }));
  }

  // The scale and zero point of a module's inputs, where they are its own (static).
  struct Inputs {
    float scale;
    int zero_point = 0;
  };
  std::optional<Inputs> inputs_of(const std::string& module) {
    const std::string name = module + ".input_scale", zero_name = module + ".input_zero_point";
    const std::optional<TensorView> scale = checkpoint_.take(name), zero = checkpoint_.take(zero_name);
    if (!scale) return std::nullopt;
    const std::vector<float> scales = floats_of(*scale, where(name));
    if (scales.size() != 1 || !(scales[0] > 0) || !std::isfinite(scales[0]) || !std::isfinite(1 / scales[0]))
      fail("{}: expected one finite number above 0, found {}", where(name),
           scales.size() == 1 ? fmt::format("{}", scales[0]) : fmt::format("{} numbers", scales.size()));
    Inputs inputs{scales[0]};
    if (zero) {
      if (zero->dtype != DType::kInt8 || zero->bytes.size() != 1) fail("{}: expected one i8", where(zero_name));
      inputs.zero_point = static_cast<int8_t>(zero->bytes[0]);
    }
    return inputs;
  }

  // Of a linear layer, or of a convolution: more axes behind the second are part of its depth.
  void bytes(const std::string& module) {
    const TensorView weight = take_part(checkpoint_, module + ".weight");
    if (weight.shape.size() < 2 || weight.shape.size() > 5)
      fail("{}: expected a weight of 2 to 5 axes, found {}", where(module + ".weight"), weight.shape.size());
    int64_t inputs = 1;
    for (size_t axis = 1; axis < weight.shape.size(); ++axis) inputs *= weight.shape[axis];
    BlockLayout layout{.rows = weight.shape[0], .depth = inputs, .bits = 8, .inputs_by_token = scheme_.by_token};
    DType dtype;
    UnpackedScales unpacked = scales_of(module + ".weight_scale", layout.rows, layout.depth, layout.group, dtype);
    if (dtype == DType::kFloat16) layout.scale_type = dtype;
    if (const std::optional<TensorView> zeros = zeros_of(module)) {
      if (zeros->dtype != DType::kInt8 || zeros->bytes.size() != unpacked.scales.size())
        fail("{}: expected i8 [{}]", where(module + ".weight_zero_point"), unpacked.scales.size());
      layout.has_minima = true, layout.scale_type = DType::kFloat32;
      for (size_t i = 0; i < unpacked.scales.size(); ++i)  // codes count from -128
        unpacked.minima.push_back(
            -(unpacked.scales[i] * static_cast<float>(static_cast<int8_t>(zeros->bytes[i]) + 128)));
    }
    const int64_t depth = layout.depth;
    const std::optional<Inputs> known = inputs_of(module);
    std::shared_ptr<IntegerCodes> integers;
    constexpr int64_t kMostProducts = 1 << 16;  // of a sum in 32 bits
    const bool by_row = unpacked.scale_rows == 1 || unpacked.rows_of_scale == 1;
    if (known && by_row && !layout.has_minima && layout.groups() == 1 && layout.depth <= kMostProducts)
      integers = std::make_shared<IntegerCodes>(IntegerCodes{.codes = weight,
                                                             .scales = unpacked.scales,
                                                             .input_scale = known->scale,
                                                             .input_zero_point = known->zero_point});
    if (integers)  // the inputs of the next layer would hide it
      for (const float scale : integers->scales)
        if (!std::isfinite(scale))
          fail("{}: expected finite numbers, found {}", where(module + ".weight_scale"), scale);
    if (integers && unpacked.scale_rows == 1)
      integers->scales.assign(static_cast<size_t>(layout.rows), unpacked.scales.at(0));
    CompressedWeight made =
        unpacked_weight(std::move(layout), std::move(unpacked), weight, [weight, depth](int64_t r, int64_t k) {
          return static_cast<uint8_t>(static_cast<uint8_t>(weight.bytes[static_cast<size_t>(r * depth + k)]) ^ 0x80);
        });
    made.integers = std::move(integers);
    if (weight.shape.size() > 2) made.shape = weight.shape;
    checkpoint_.add_compressed(module + ".weight", std::move(made));
  }

  void float8(const std::string& module) {
    const TensorView weight = take_part(checkpoint_, module + ".weight");
    expect_part(checkpoint_, module + ".weight", weight, DType::kUInt8, {-1, -1});
    BlockLayout layout{.rows = weight.shape[0],
                       .depth = weight.shape[1],
                       .bits = 8,
                       .values = {float8_values().begin(), float8_values().end()}};
    DType dtype;
    UnpackedScales unpacked = scales_of(module + ".weight_scale", layout.rows, layout.depth, layout.group, dtype);
    checkpoint_.add_compressed(module + ".weight", unpacked_weight(std::move(layout), std::move(unpacked), weight));
  }

  const CompressedTensorsScheme scheme_;
  Checkpoint& checkpoint_;
};

}  // namespace

void read_compressed_tensors(const Config& config, Checkpoint& checkpoint) { Reader(config, checkpoint).read(); }

}  // namespace transom
