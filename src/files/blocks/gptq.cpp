// SPDX-License-Identifier: Apache-2.0
// GPTQ (Frantar et al., 2022) as AutoGPTQ, GPTQModel and Transformers store it: words of 32 bits along the inputs, zero
// points along the outputs; and AWQ (Lin et al., 2023) in AutoAWQ's "gemm" layout: words along the outputs.
#include <algorithm>
#include <span>

#include "base/error.h"
#include "base/terminal/log.h"
#include "files/blocks/awq_activations.h"
#include "files/blocks/quantization_config.h"
#include "files/blocks/quantized_parts.h"

namespace transom {
namespace {

// Unpacked scales and zero points of groups: [groups, outputs].
struct Groups {
  std::vector<float> scales;
  std::vector<uint8_t> zeros;
  bool symmetric = true;  // all zero points are half the range
};

BlockLayout layout_of(int64_t outputs, int64_t inputs, int64_t bits, int64_t group, const Groups& groups,
                      DType scale_type) {
  return {.rows = outputs,
          .depth = inputs,
          .bits = bits == 8 ? 8 : 4,
          .group = group,
          .has_minima = !groups.symmetric,
          .scale_type = groups.symmetric && scale_type == DType::kFloat16 ? DType::kFloat16 : DType::kFloat32};
}

// Codes of any of the two layouts; `Codes` gives the one of an output and an input.
template <typename Codes>
class WordMatrix : public BlockMatrix {
 public:
  WordMatrix(BlockLayout layout, int64_t bits, Groups groups, TensorView source, Codes codes)
      : BlockMatrix(std::move(layout)),
        bits_(bits),
        groups_(std::move(groups)),
        source_(std::move(source)),
        codes_(std::move(codes)) {}
  void release() const override { release_mapped(source_.bytes); }

  void read_row(int64_t row, uint8_t* codes, float* scales, float* minima) const override {
    const BlockLayout& l = layout();
    const int shift = l.has_minima ? 0 : (l.bits == 8 ? 128 : 8) - (1 << (bits_ - 1));
    for (int64_t k = 0; k < l.depth; ++k) {
      const int64_t input = l.order.empty() ? k : l.order[static_cast<size_t>(k)];
      codes[k] = static_cast<uint8_t>(codes_(row, input) + shift);
    }
    for (int64_t g = 0; g < l.groups(); ++g) {
      const auto at = static_cast<size_t>(g * l.rows + row);
      scales[g] = groups_.scales[at];
      if (minima) minima[g] = -(scales[g] * static_cast<float>(groups_.zeros[at]));
    }
  }

 private:
  int64_t bits_;
  Groups groups_;
  TensorView source_;
  Codes codes_;
};

template <typename Codes>
std::shared_ptr<const BlockMatrix> word_matrix(BlockLayout layout, int64_t bits, Groups groups,
                                               const TensorView& source, Codes codes) {
  return std::make_shared<WordMatrix<Codes>>(std::move(layout), bits, std::move(groups), source, std::move(codes));
}

int64_t positive(const Config& config, const char* field, int64_t otherwise) {
  const int64_t value = config.get_int(field, otherwise);
  if (value <= 0) fail("{}: {}: expected a number above 0, found {}", config.where(), field, value);
  return value;
}

int64_t group_size(const Config& config, int64_t inputs) {
  const int64_t group = config.get_int("group_size", 128);
  if (group == -1) return inputs;
  if (group <= 0) fail("{}: group_size: expected -1 or a number above 0, found {}", config.where(), group);
  return std::min(group, inputs);
}

// Version 1 stores zero points less one, subtracted from whole words: a zero point of 0 borrows from the next. 3 bits
// lie across words and are counted one by one.
uint32_t one_in_each(int64_t bits) {
  uint32_t ones = 0;
  for (int64_t at = 0; 32 % bits == 0 && at < 32; at += bits) ones |= 1u << at;
  return ones;
}

void expect_bits_of_gptq(int64_t bits, const std::string& where) {
  if (bits != 2 && bits != 3 && bits != 4 && bits != 8) fail("{}: 2, 3, 4 and 8 are supported, found {}", where, bits);
}

// Files that say version 1 and hold the zero points of version 2: read as said they would all be one too large, which
// `sym` excludes.
bool are_of_second_version(Groups& groups, int64_t bits) {
  const auto half = static_cast<uint8_t>(1u << (bits - 1));
  const bool all =
      std::all_of(groups.zeros.begin(), groups.zeros.end(), [&](uint8_t zero) { return zero == half + 1; });
  if (all) groups.zeros.assign(groups.zeros.size(), half), groups.symmetric = true;
  return all;
}

// Whether the zero points are of another version than the configuration says.
bool read_gptq_module(const std::string& module, const Config& config, bool first_version, Checkpoint& checkpoint) {
  int64_t bits = positive(config, "bits", 4);
  expect_bits_of_gptq(bits, config.where() + ": bits");
  const bool by_module = config.has("dynamic");  // of GPTQModel: the shapes tell the bits and the size of groups
  const TensorView packed = take_part(checkpoint, module + ".qweight"),
                   zeros = take_part(checkpoint, module + ".qzeros"),
                   scales = take_part(checkpoint, module + ".scales");
  expect_part(checkpoint, module + ".qweight", packed, DType::kInt32, {-1, -1});
  const int64_t outputs = packed.shape[1];
  if (by_module && zeros.shape.size() == 2 && outputs > 0) {
    bits = zeros.shape[1] * 32 / outputs;
    expect_bits_of_gptq(bits, checkpoint.where() + ": tensor " + quoted(module + ".qzeros") + ": bits");
  }
  const uint32_t mask = (1u << bits) - 1, word_ones = first_version ? one_in_each(bits) : 0,
                 added = first_version && word_ones == 0 ? 1 : 0;
  const int64_t inputs = packed.shape[0] * 32 / bits;
  if (inputs <= 0 || outputs <= 0 || packed.shape[0] * 32 % bits != 0)
    fail("{}: tensor {}: {} words hold no whole numbers of {} bits", checkpoint.where(), quoted(module + ".qweight"),
         packed.shape[0], bits);
  int64_t group = group_size(config, inputs), count = (inputs + group - 1) / group;
  if (by_module && !scales.shape.empty() && scales.shape[0] > 0 && scales.shape[0] != count &&
      inputs % scales.shape[0] == 0)
    count = scales.shape[0], group = inputs / count;
  expect_part(checkpoint, module + ".qzeros", zeros, DType::kInt32, {count, (outputs * bits + 31) / 32});
  expect_part(checkpoint, module + ".scales", scales, scales.dtype, {count, outputs});
  Groups groups{.scales = floats_of(scales, checkpoint.where() + ": " + module + ".scales"), .zeros = {}};
  std::vector<uint32_t> zero_words = words_of(zeros);
  for (uint32_t& word : zero_words) word += word_ones;
  groups.zeros.resize(groups.scales.size());
  for (int64_t g = 0; g < count; ++g)
    for (int64_t o = 0; o < outputs; ++o) {
      const BitStream<std::vector<uint32_t>> stream{zero_words, g * zeros.shape[1], 1};
      const uint32_t zero = (stream(o, bits) + added) & mask;
      groups.zeros[static_cast<size_t>(g * outputs + o)] = static_cast<uint8_t>(zero);
      groups.symmetric &= zero == 1u << (bits - 1);
    }
  const bool contradicts =
      first_version && config.get_bool("sym", false) && bits > 2 && are_of_second_version(groups, bits);
  BlockLayout layout = layout_of(outputs, inputs, bits, group, groups, scales.dtype);
  std::optional<TensorView> g_idx = checkpoint.take(module + ".g_idx");
  if (!g_idx && count > 1 && config.get_bool("desc_act", false)) g_idx = take_part(checkpoint, module + ".g_idx");
  if (g_idx) {
    const std::string name = checkpoint.where() + ": tensor " + quoted(module + ".g_idx");
    const std::vector<int64_t> of_inputs = integers_of(*g_idx, name);
    if (static_cast<int64_t>(of_inputs.size()) != inputs)
      fail("{}: expected {} numbers, found {}", name, inputs, of_inputs.size());
    layout.order = order_of_groups(of_inputs, group, name);
  }
  checkpoint.add_compressed(module + ".weight",
                            {word_matrix(std::move(layout), bits, std::move(groups), packed,
                                         [words = StoredWords(packed), outputs, bits](int64_t output, int64_t input) {
                                           return BitStream<StoredWords>{words, output, outputs}(input, bits);
                                         })});
  return contradicts;
}

// The matrix in f32, its columns divided.
TensorView divided_columns(const BlockMatrix& matrix, const std::vector<float>& divisors) {
  const int64_t rows = matrix.layout().rows, depth = matrix.layout().depth;
  const auto numbers = std::make_shared<std::vector<float>>(static_cast<size_t>(rows * depth));
  for (int64_t r = 0; r < rows; ++r) {
    float* row = numbers->data() + r * depth;
    matrix.dequantise_row(r, row);
    for (int64_t k = 0; k < depth; ++k) row[k] /= divisors[static_cast<size_t>(k)];
  }
  return {DType::kFloat32, {rows, depth}, std::as_bytes(std::span(*numbers)), numbers};
}

}  // namespace

void read_gptq(const Config& config, Checkpoint& checkpoint) {
  // Transformers 5 calls it format.
  const char* field = config.has("checkpoint_format") ? "checkpoint_format" : "format";
  const std::string format = config.get_string(field, "gptq");
  if (format != "gptq" && format != "gptq_v2")
    fail("{}: {} {} is not supported; gptq and gptq_v2 are", config.where(), field, quoted(format));
  if (const std::string words = config.get_string("pack_dtype", "int32"); words != "int32")
    fail("{}: pack_dtype {} is not supported; int32 is", config.where(), quoted(words));
  expect_codes(checkpoint, {".qzeros", ".scales", ".g_idx"}, ".qweight");
  size_t contradicting = 0;
  for (const std::string& module : modules_with(checkpoint, ".qweight"))
    contradicting += read_gptq_module(module, config, format == "gptq", checkpoint);
  if (contradicting > 0)
    log(LogLevel::kWarning,
        fmt::format("{}: sym is true, and the zero points of {} layers are those of gptq_v2, though {} says gptq: they "
                    "are read as gptq_v2",
                    config.where(), contradicting, field));
}

void read_awq(const Config& config, Checkpoint& checkpoint) {
  const std::string version = config.get_string("version", config.get_string("format", "gemm"));
  if (version != "gemm" && version != "GEMM")
    fail("{}: version {} of AWQ is not supported; gemm is", config.where(), quoted(version));
  if (const int64_t bits = positive(config, "bits", 4); bits != 4)
    fail("{}: bits: AWQ of 4 bits is supported, found {}", config.where(), bits);
  const bool has_zeros = config.get_bool("zero_point", false);
  auto divisors_by_module = take_awq_divisors(checkpoint);
  expect_codes(checkpoint, {".qzeros", ".scales"}, ".qweight");
  // Which nibble of a word holds output 0, 1, ... of its eight.
  static constexpr int kNibble[8] = {0, 4, 1, 5, 2, 6, 3, 7};
  for (const std::string& module : modules_with(checkpoint, ".qweight")) {
    const TensorView packed = take_part(checkpoint, module + ".qweight");
    expect_part(checkpoint, module + ".qweight", packed, DType::kInt32, {-1, -1});
    const int64_t inputs = packed.shape[0], row = packed.shape[1], outputs = 8 * row;
    if (inputs <= 0 || outputs <= 0) fail("{}: tensor {}: is empty", checkpoint.where(), quoted(module + ".qweight"));
    const int64_t group = group_size(config, inputs), count = (inputs + group - 1) / group;
    const TensorView scales = take_part(checkpoint, module + ".scales");
    expect_part(checkpoint, module + ".scales", scales, scales.dtype, {count, outputs});
    Groups groups{.scales = floats_of(scales, checkpoint.where() + ": " + module + ".scales"), .zeros = {}};
    groups.zeros.assign(groups.scales.size(), 8);
    std::optional<TensorView> zeros = checkpoint.take(module + ".qzeros");
    if (!zeros && has_zeros) zeros = take_part(checkpoint, module + ".qzeros");
    if (zeros) {
      expect_part(checkpoint, module + ".qzeros", *zeros, DType::kInt32, {count, row});
      const std::vector<uint32_t> words = words_of(*zeros);
      for (size_t i = 0; i < groups.zeros.size(); ++i) {
        groups.zeros[i] = words[i / 8] >> (4 * kNibble[i % 8]) & 15;
        groups.symmetric &= groups.zeros[i] == 8;
      }
    }
    BlockLayout layout = layout_of(outputs, inputs, 4, group, groups, scales.dtype);
    auto matrix = word_matrix(std::move(layout), 4, std::move(groups), packed,
                              [words = StoredWords(packed), row](int64_t output, int64_t input) {
                                const uint32_t word = words[static_cast<size_t>(input * row + output / 8)];
                                return word >> (4 * kNibble[output % 8]) & 15;
                              });
    // Groups have no room for divisors of single inputs.
    const std::vector<float> divisors = take_divisors_of(module, divisors_by_module);
    if (divisors.empty()) {
      checkpoint.add_compressed(module + ".weight", {std::move(matrix)});
      continue;
    }
    if (static_cast<int64_t>(divisors.size()) != inputs)
      fail("{}: {}: expected {} scales of the activation before it, found {}", checkpoint.where(), quoted(module),
           inputs, divisors.size());
    checkpoint.add(module + ".weight", divided_columns(*matrix, divisors));
  }
  for (const auto& [module, divisors] : divisors_by_module)
    fail("{}: {}: holds scales of an activation, but no codes of the layer behind it", checkpoint.where(),
         quoted(module));
}

}  // namespace transom
