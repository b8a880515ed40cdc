// SPDX-License-Identifier: Apache-2.0
#include "models/loading/packed_weights.h"

#include <sys/mman.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/error.h"
#include "base/float8.h"
#include "base/half_bits.h"
#include "base/threads.h"
#include "io/blocks/rounded_matrix.h"
#include "ops/products/integer_products.h"

namespace transom {
namespace {

constexpr int64_t kRows = 16, kInputs = 32;
constexpr size_t kHugePage = size_t{2} << 20;

int64_t blocks(int64_t count, int64_t size) { return (count + size - 1) / size; }

// Zeros. A product reads its weight from end to end for each token, and small pages cost a third of that speed.
std::shared_ptr<std::byte> allocate(size_t bytes) {
  const size_t size = std::max<size_t>(bytes, 1), kept = size + (size >= kHugePage ? kHugePage : 0);
  void* place = ::mmap(nullptr, kept, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (place == MAP_FAILED) fail("out of memory: {} bytes for packed weights", bytes);
  auto* begin = static_cast<std::byte*>(place);
  if (size >= kHugePage) {
    begin += (kHugePage - reinterpret_cast<uintptr_t>(begin) % kHugePage) % kHugePage;
    ::madvise(begin, size, MADV_HUGEPAGE);
  }
  return {begin, [place, kept](std::byte*) { ::munmap(place, kept); }};
}

// Scales or minima [ceil(N / 16), G, 16].
class ScaleWriter {
 public:
  ScaleWriter(const BlockLayout& layout, int64_t groups)
      : half_(layout.scale_type == DType::kFloat16),
        groups_(groups),
        shape_{blocks(layout.rows, kRows), groups, kRows},
        bytes_(static_cast<size_t>(elements(shape_)) * (half_ ? 2 : 4)),
        data_(allocate(bytes_)) {}
  void write(int64_t row, const float* from, int64_t count) {
    for (int64_t g = 0; g < count; ++g) {
      const auto at = static_cast<size_t>((row / kRows * groups_ + g) * kRows + row % kRows);
      if (half_) {
        const uint16_t value = half_of_float(from[g]);
        std::memcpy(data_.get() + 2 * at, &value, 2);
      } else {
        std::memcpy(data_.get() + 4 * at, &from[g], 4);
      }
    }
  }
  Tensor tensor() const {
    return Tensor::from_frozen({data_.get(), bytes_}, {half_ ? DType::kFloat16 : DType::kFloat32, shape_}, data_);
  }

 private:
  bool half_;
  int64_t groups_;
  Shape shape_;
  size_t bytes_;
  std::shared_ptr<std::byte> data_;
};

typedef uint32_t FourWords __attribute__((vector_size(16)));

FourWords words_at(const uint8_t* from) {
  FourWords words;
  std::memcpy(&words, from, sizeof(words));
  return words;
}

// Words of four bytes of 16 rows, `row_bytes` apart, become lines of 16 words: `words`, a multiple of four, of each
// row.
void place_words(const uint8_t* rows, int64_t row_bytes, int64_t words, uint8_t* to) {
  for (int64_t word = 0; word < words; word += 4, rows += 16, to += 16 * kRows)
    for (int64_t row = 0; row < kRows; row += 4) {
      const uint8_t* from = rows + row * row_bytes;
      const FourWords a = words_at(from), b = words_at(from + row_bytes), c = words_at(from + 2 * row_bytes),
                      d = words_at(from + 3 * row_bytes);
      const FourWords ab = __builtin_shufflevector(a, b, 0, 4, 1, 5), cd = __builtin_shufflevector(c, d, 0, 4, 1, 5),
                      other_ab = __builtin_shufflevector(a, b, 2, 6, 3, 7),
                      other_cd = __builtin_shufflevector(c, d, 2, 6, 3, 7);
      const FourWords lines[4] = {__builtin_shufflevector(ab, cd, 0, 1, 4, 5),
                                  __builtin_shufflevector(ab, cd, 2, 3, 6, 7),
                                  __builtin_shufflevector(other_ab, other_cd, 0, 1, 4, 5),
                                  __builtin_shufflevector(other_ab, other_cd, 2, 3, 6, 7)};
      for (int64_t i = 0; i < 4; ++i) std::memcpy(to + i * 4 * kRows + 4 * row, &lines[i], sizeof(lines[i]));
    }
}

// Codes of 4 bits, 32 for each block, as bytes of two.
void pair_codes(const uint8_t* codes, int64_t blocks, uint8_t* pairs) {
  constexpr int64_t kHalf = kInputs / 2;
  for (int64_t block = 0; block < blocks; ++block, codes += kInputs, pairs += kHalf)
    for (int64_t i = 0; i < kHalf; ++i) pairs[i] = static_cast<uint8_t>((codes[i] & 15) | (codes[kHalf + i] & 15) << 4);
}

Tensor frozen_floats(const std::vector<float>& values) {
  const auto held = std::make_shared<const std::vector<float>>(values);
  return Tensor::from_frozen(std::as_bytes(std::span(*held)), {DType::kFloat32, {static_cast<int64_t>(values.size())}},
                             held);
}

}  // namespace

std::optional<PackedMatrix> packed_matrix(const BlockMatrix& matrix) {
  const BlockLayout& l = matrix.layout();
  if (l.rows <= 0 || l.depth <= 0) return std::nullopt;
  const int64_t group = l.group >= l.depth ? blocks(l.depth, kInputs) * kInputs : l.group;
  if (group != 16 && group % kInputs != 0) return std::nullopt;
  const int64_t groups = blocks(l.depth, group), row_blocks = blocks(l.rows, kRows), steps = l.bits == 8 ? 8 : 4;
  const size_t block_bytes = static_cast<size_t>(blocks(l.depth, kInputs) * steps * 64);
  const size_t bytes = static_cast<size_t>(row_blocks) * block_bytes;
  const std::shared_ptr<std::byte> codes = allocate(bytes);
  ScaleWriter scales(l, groups);
  std::optional<ScaleWriter> minima;
  if (l.has_minima) minima.emplace(l, groups);
  // The codes of 16 rows, row after row with zeros behind each to the end of a block, then in the order of
  // ops/products/packed_matrix.h. Whole lines of 64 bytes are written from first to last: rows one by one would load
  // and store each line of memory 16 times.
  parallel_for(static_cast<size_t>(row_blocks), [&](size_t block) {
    const int64_t blocks_of_row = blocks(l.depth, kInputs), row_bytes = blocks_of_row * kInputs / (l.bits == 8 ? 1 : 2);
    std::vector<uint8_t> row_codes(static_cast<size_t>(kRows * row_bytes)),
        unpaired(static_cast<size_t>(l.bits == 8 ? 0 : blocks_of_row * kInputs));
    std::vector<float> row_scales(static_cast<size_t>(groups)),
        row_minima(l.has_minima ? static_cast<size_t>(groups) : 0);
    float* least = l.has_minima ? row_minima.data() : nullptr;
    const auto first = static_cast<int64_t>(block) * kRows;
    for (int64_t row = first; row < std::min(first + kRows, l.rows); ++row) {
      uint8_t* to = row_codes.data() + (row - first) * row_bytes;
      if (l.bits == 8) {
        matrix.read_row(row, to, row_scales.data(), least);
      } else if (!matrix.read_pairs(row, to, row_scales.data(), least)) {
        matrix.read_row(row, unpaired.data(), row_scales.data(), least);
        pair_codes(unpaired.data(), blocks_of_row, to);
      }
      scales.write(row, row_scales.data(), groups);
      if (minima) minima->write(row, row_minima.data(), groups);
    }
    place_words(row_codes.data(), row_bytes, row_bytes / 4,
                reinterpret_cast<uint8_t*>(codes.get()) + block * block_bytes);
  });
  matrix.release();  // the packed form is what is read from now on
  PackedMatrix result{.bits = l.bits, .rows = l.rows, .depth = l.depth, .group = group};
  result.bytes = Tensor::from_frozen({codes.get(), bytes},
                                     {DType::kUInt8, {row_blocks, blocks(l.depth, kInputs), steps, kRows, 4}}, codes);
  result.scales = scales.tensor();
  if (minima) result.minima = minima->tensor();
  if (!l.values.empty()) result.values = frozen_floats(l.values);
  if (!l.order.empty()) {
    const auto held = std::make_shared<const std::vector<int64_t>>(l.order);
    result.order = Tensor::from_frozen(std::as_bytes(std::span(*held)), {DType::kInt64, {l.depth}}, held);
  }
  return result;
}

PackedMatrix integer_matrix(const IntegerCodes& codes, SharedInputScales& scales) {
  // Frozen, so that what is made of scales alone is computed once.
  const auto number = [](float value) {
    const auto held = std::make_shared<const float>(value);
    return Tensor::from_frozen(std::as_bytes(std::span(held.get(), 1)), {DType::kFloat32, {}}, held);
  };
  auto known = scales.find(codes.input_scale);
  if (known == scales.end()) {
    known =
        scales.emplace(codes.input_scale, std::pair{number(codes.input_scale), number(1 / codes.input_scale)}).first;
  }
  IntegerWeight weight{
      .codes = Tensor::from_frozen(codes.codes.bytes, {DType::kInt8, codes.codes.shape}, codes.codes.owner),
      .scales = frozen_floats(codes.scales),
      .input_scale = known->second.first,
      .input_inverse = known->second.second};
  // Linear layers multiply bytes without a sign; convolutions want a zero point of 0.
  const bool is_unsigned = codes.codes.shape.size() == 2 || codes.input_zero_point == -128;
  weight.input_type = is_unsigned ? DType::kUInt8 : DType::kInt8;
  weight.zero_point = codes.input_zero_point + (is_unsigned ? 128 : 0);
  PackedMatrix matrix{.bits = 8, .rows = codes.codes.shape[0]};
  matrix.depth = static_cast<int64_t>(codes.codes.bytes.size()) / std::max<int64_t>(matrix.rows, 1);
  matrix.integers = std::make_shared<const IntegerWeight>(std::move(weight));
  return matrix;
}

std::string rounded_activations(const BlockLayout& layout) {
  // Tables of integers, or of halves (IQ4, MXFP4), are multiplied in integers; with others (nf4, fp8) nothing is won.
  const auto whole = [](float value) { return std::fabs(value) <= 63 && 2 * value == std::nearbyint(2 * value); };
  const auto integer = [](float value) { return std::fabs(value) <= 127 && value == std::nearbyint(value); };
  if (!layout.values.empty() &&
      (layout.bits != 4 || !(std::all_of(layout.values.begin(), layout.values.end(), whole) ||
                             std::all_of(layout.values.begin(), layout.values.end(), integer))))
    return "float32";
  return layout.inputs_by_token && layout.values.empty() ? "int8_token" : "int8";
}

std::string fast_activations(const BlockLayout& layout) {
  return layout.values.empty() && layout.inputs_by_token ? "int16" : rounded_activations(layout);
}

bool holds_float8(const BlockLayout& layout) {
  if (layout.bits != 8 || layout.group % 32 != 0 || layout.values.size() != float8_values().size()) return false;
  for (size_t code = 0; code < layout.values.size(); ++code)
    if (!std::isnan(float8_values()[code]) && layout.values[code] != float8_values()[code]) return false;
  return true;
}

std::string rounded_head_activations(const std::string& activations) {
  return activations == "float32" ? activations : "int16";
}

PackedMatrix packed_by_row(const Tensor& weight) {
  const auto numbers = weight.to_vector<float>();
  return *packed_matrix(*rounded_matrix(numbers.data(), weight.dim(0), weight.dim(1), {.bits = 8}));
}

}  // namespace transom
