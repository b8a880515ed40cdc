// SPDX-License-Identifier: Apache-2.0
// The formats of the compressed-tensors library (vLLM's), and fine-grained fp8 (DeepSeek-V3's):
// https://github.com/vllm-project/compressed-tensors. Which of them a weight has is told by its tensors.
#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/json/json.h"
#include "base/numbers/float8.h"
#include "io/blocks/quantization_config.h"
#include "io/blocks/quantized_parts.h"

namespace transom {
namespace {

// Codes, scales and minima spelt out: scales [rows or 1, groups or 1] are repeated over blocks of rows.
struct Spelt {
  std::vector<float> scales, minima;  // [scale_rows, groups]
  int64_t scale_rows = 1, rows_of_scale = 1;
};

template <typename Codes>
class SpeltMatrix : public BlockMatrix {
 public:
  SpeltMatrix(BlockLayout layout, Spelt spelt, TensorView source, Codes codes)
      : BlockMatrix(std::move(layout)),
        spelt_(std::move(spelt)),
        source_(std::move(source)),
        codes_(std::move(codes)) {}
  void release() const override { release_mapped(source_.bytes); }
  void read_row(int64_t row, uint8_t* codes, float* scales, float* minima) const override {
    const BlockLayout& l = layout();
    for (int64_t k = 0; k < l.depth; ++k) codes[k] = codes_(row, l.order.empty() ? k : l.order[static_cast<size_t>(k)]);
    const int64_t from = row / spelt_.rows_of_scale * l.groups();
    for (int64_t g = 0; g < l.groups(); ++g) {
      scales[g] = spelt_.scales[static_cast<size_t>(from + g)];
      if (minima) minima[g] = spelt_.minima[static_cast<size_t>(from + g)];
    }
  }

 private:
  Spelt spelt_;
  TensorView source_;
  Codes codes_;
};

template <typename Codes>
CompressedWeight spelt_weight(BlockLayout layout, Spelt spelt, const TensorView& source, Codes codes) {
  return {std::make_shared<SpeltMatrix<Codes>>(std::move(layout), std::move(spelt), source, std::move(codes))};
}

const std::vector<float> kFp4Values = {0, .5, 1, 1.5, 2, 3, 4, 6, -0.0f, -.5, -1, -1.5, -2, -3, -4, -6};

class Reader {
 public:
  Reader(const Config& config, Checkpoint& checkpoint) : config_(config), checkpoint_(checkpoint) {}

  void read() {
    find_schemes();
    for (const std::string& module : modules_with(checkpoint_, ".weight_packed")) {
      if (checkpoint_.find(module + ".weight_shape")) packed_words(module);
      else packed_fp4(module);
    }
    for (const std::string& module : modules_with(checkpoint_, ".weight_scale"))
      if (const TensorView* weight = checkpoint_.find(module + ".weight")) {
        if (weight->dtype == DType::kInt8) bytes(module);
        else if (weight->dtype == DType::kUInt8) float8(module);
      }
    for (const char* ending : {".input_scale", ".input_zero_point", ".input_global_scale", ".k_scale", ".v_scale"})
      for (const std::string& module : modules_with(checkpoint_, ending)) checkpoint_.take(module + ending);
  }

 private:
  std::string where(const std::string& name) const { return checkpoint_.where() + ": tensor " + quoted(name); }

  // Whether any group asks for 8-bit inputs by token.
  void find_schemes() {
    if (!config_.has("config_groups")) return;
    const Json groups = json_of(config_)["config_groups"];
    if (!groups.is_object()) fail("{}: config_groups: expected an object", config_.where());
    for (const auto& [name, group] : groups.items()) {
      if (!group.is_object() || !group.contains("input_activations") || !group["input_activations"].is_object())
        continue;
      const Config inputs =
          make_config(group["input_activations"], config_.where() + ": " + name + ".input_activations");
      by_token_ |= inputs.get_string("type", "int") == "int" && inputs.get_int("num_bits", 8) == 8 &&
                   inputs.get_string("strategy", "token") == "token" && inputs.get_bool("symmetric", true);
    }
  }

  // Scales [rows, groups] (or [rows], or one for all), and the size of a group.
  Spelt scales_of(const std::string& name, int64_t rows, int64_t depth, int64_t& group, DType& dtype) {
    const TensorView view = take_part(checkpoint_, name);
    dtype = view.dtype;
    Spelt spelt{.scales = floats_of(view, where(name)), .minima = {}};
    const auto count = static_cast<int64_t>(spelt.scales.size());
    const bool by_row = !view.shape.empty() && view.shape[0] == rows && count >= rows;
    if (!by_row && count != 1) fail("{}: expected scales for {} rows, found {} numbers", where(name), rows, count);
    const int64_t groups = by_row ? count / rows : 1;
    if (by_row && (groups * rows != count || groups > depth))
      fail("{}: {} scales do not fit [{}, {}]", where(name), count, rows, depth);
    group = (depth + groups - 1) / groups;
    if ((depth + group - 1) / group != groups) fail("{}: {} groups do not fit rows of {}", where(name), groups, depth);
    spelt.scale_rows = by_row ? rows : 1, spelt.rows_of_scale = by_row ? 1 : rows;
    return spelt;
  }

  void packed_words(const std::string& module) {
    const std::string name = module + ".weight_packed", shape_name = module + ".weight_shape";
    const TensorView packed = take_part(checkpoint_, name);
    const std::vector<int64_t> shape = integers_of(take_part(checkpoint_, shape_name), where(shape_name));
    if (shape.size() != 2 || shape[0] <= 0 || shape[1] <= 0) fail("{}: expected two extents", where(shape_name));
    const int64_t rows = shape[0], depth = shape[1];
    expect_part(checkpoint_, name, packed, DType::kInt32, {rows, -1});
    const int64_t row = packed.shape[1];
    int64_t bits = 0;
    for (const int64_t candidate : {2, 4, 8})
      if (row == (depth + 32 / candidate - 1) / (32 / candidate)) bits = candidate;
    if (bits == 0) fail("{}: {} words a row of {} are not 2, 4 or 8 bits", where(name), row, depth);
    BlockLayout layout{.rows = rows, .depth = depth, .bits = bits == 8 ? 8 : 4};
    DType dtype;
    Spelt spelt = scales_of(module + ".weight_scale", rows, depth, layout.group, dtype);
    const int64_t groups = layout.groups(), per_word = 32 / bits;
    const uint32_t mask = static_cast<uint32_t>((uint64_t{1} << bits) - 1);
    if (const std::optional<TensorView> zeros = checkpoint_.take(module + ".weight_zero_point")) {
      expect_part(checkpoint_, module + ".weight_zero_point", *zeros, DType::kInt32,
                  {(spelt.scale_rows + per_word - 1) / per_word, groups});
      const std::vector<uint32_t> words = words_of(*zeros);
      layout.has_minima = true;
      for (size_t i = 0; i < spelt.scales.size(); ++i) {
        const auto r = static_cast<int64_t>(i) / groups, g = static_cast<int64_t>(i) % groups;
        const uint32_t zero = words[static_cast<size_t>(r / per_word * groups + g)] >> (bits * (r % per_word)) & mask;
        spelt.minima.push_back(-(spelt.scales[i] * static_cast<float>(zero)));
      }
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
    checkpoint_.add_compressed(
        module + ".weight",
        spelt_weight(std::move(layout), std::move(spelt), packed,
                     [words = StoredWords(packed), row, bits, per_word, mask, shift](int64_t r, int64_t k) {
                       const uint32_t word = words[static_cast<size_t>(r * row + k / per_word)];
                       return static_cast<uint8_t>((word >> (bits * (k % per_word)) & mask) + shift);
                     }));
  }

  // nvfp4 and mxfp4: two codes a byte, the first in the low half; scales f8_e4m3 with one more for all, or powers of
  // two.
  void packed_fp4(const std::string& module) {
    const std::string name = module + ".weight_packed", scale_name = module + ".weight_scale";
    const TensorView packed = take_part(checkpoint_, name), scales = take_part(checkpoint_, scale_name);
    expect_part(checkpoint_, name, packed, DType::kUInt8, {-1, -1});
    const int64_t rows = packed.shape[0], row = packed.shape[1], depth = 2 * row;
    expect_part(checkpoint_, scale_name, scales, DType::kUInt8, {rows, -1});
    const int64_t groups = scales.shape[1];
    if (groups <= 0 || depth <= 0 || depth % groups != 0)
      fail("{}: {} groups do not fit rows of {}", where(scale_name), groups, depth);
    BlockLayout layout{.rows = rows, .depth = depth, .bits = 4, .group = depth / groups, .values = kFp4Values};
    const std::optional<TensorView> whole = checkpoint_.take(module + ".weight_global_scale");
    const float divisor = whole ? floats_of(*whole, where(module + ".weight_global_scale")).at(0) : 1;
    const std::array<float, 256>& float8 = float8_values();
    Spelt spelt{.scales = {}, .minima = {}, .scale_rows = rows};
    for (const std::byte byte : scales.bytes) {
      const int code = static_cast<int>(byte);
      spelt.scales.push_back(whole ? float8[static_cast<size_t>(code)] / divisor : std::ldexp(1.0f, code - 127));
    }
    checkpoint_.add_compressed(
        module + ".weight",
        spelt_weight(std::move(layout), std::move(spelt), packed, [packed, row](int64_t r, int64_t k) {
          const auto byte = static_cast<uint8_t>(packed.bytes[static_cast<size_t>(r * row + k / 2)]);
          return static_cast<uint8_t>(k % 2 ? byte >> 4 : byte & 15);
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
    BlockLayout layout{.rows = weight.shape[0], .depth = inputs, .bits = 8, .inputs_by_token = by_token_};
    DType dtype;
    Spelt spelt = scales_of(module + ".weight_scale", layout.rows, layout.depth, layout.group, dtype);
    if (dtype == DType::kFloat16) layout.scale_type = dtype;
    if (const std::optional<TensorView> zeros = checkpoint_.take(module + ".weight_zero_point")) {
      if (zeros->dtype != DType::kInt8 || zeros->bytes.size() != spelt.scales.size())
        fail("{}: expected i8 [{}]", where(module + ".weight_zero_point"), spelt.scales.size());
      layout.has_minima = true, layout.scale_type = DType::kFloat32;
      for (size_t i = 0; i < spelt.scales.size(); ++i)  // codes count from -128
        spelt.minima.push_back(-(spelt.scales[i] * static_cast<float>(static_cast<int8_t>(zeros->bytes[i]) + 128)));
    }
    const int64_t depth = layout.depth;
    const std::optional<Inputs> known = inputs_of(module);
    std::shared_ptr<IntegerCodes> integers;
    constexpr int64_t kMostProducts = 1 << 16;  // of a sum in 32 bits
    if (known && !layout.has_minima && layout.groups() == 1 && layout.depth <= kMostProducts)
      integers = std::make_shared<IntegerCodes>(IntegerCodes{
          .codes = weight, .scales = spelt.scales, .input_scale = known->scale, .input_zero_point = known->zero_point});
    if (integers)  // the inputs of the next layer would hide it
      for (const float scale : integers->scales)
        if (!std::isfinite(scale))
          fail("{}: expected finite numbers, found {}", where(module + ".weight_scale"), scale);
    if (integers && spelt.scale_rows == 1)
      integers->scales.assign(static_cast<size_t>(layout.rows), spelt.scales.at(0));
    CompressedWeight made =
        spelt_weight(std::move(layout), std::move(spelt), weight, [weight, depth](int64_t r, int64_t k) {
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
    Spelt spelt = scales_of(module + ".weight_scale", layout.rows, layout.depth, layout.group, dtype);
    const int64_t depth = layout.depth;
    checkpoint_.add_compressed(
        module + ".weight",
        spelt_weight(std::move(layout), std::move(spelt), weight, [weight, depth](int64_t r, int64_t k) {
          return static_cast<uint8_t>(weight.bytes[static_cast<size_t>(r * depth + k)]);
        }));
  }

  const Config& config_;
  Checkpoint& checkpoint_;
  bool by_token_ = false;
};

}  // namespace

void read_compressed_tensors(const Config& config, Checkpoint& checkpoint) { Reader(config, checkpoint).read(); }

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
    Spelt spelt{.scales = floats_of(scales, checkpoint.where() + ": tensor " + quoted(name)), .minima = {}};
    if (spelt.scales.size() == 1) {
      layout.group = std::max<int64_t>(layout.depth, 1);
      spelt.rows_of_scale = std::max<int64_t>(layout.rows, 1);
    } else {
      spelt.scale_rows = (layout.rows + block[0] - 1) / block[0], spelt.rows_of_scale = block[0];
      expect_part(checkpoint, name, scales, scales.dtype, {spelt.scale_rows, layout.groups()});
    }
    const int64_t depth = layout.depth;
    checkpoint.add_compressed(
        module + ".weight",
        spelt_weight(std::move(layout), std::move(spelt), weight, [weight, depth](int64_t r, int64_t k) {
          return static_cast<uint8_t>(weight.bytes[static_cast<size_t>(r * depth + k)]);
        }));
  }
}

}  // namespace transom
