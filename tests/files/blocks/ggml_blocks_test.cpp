// SPDX-License-Identifier: Apache-2.0
#include "files/blocks/ggml/ggml_blocks.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <filesystem>

#include "base/numbers/half.h"
#include "base/numbers/half_bits.h"
#include "files/checkpoint/safetensors.h"
#include "support/golden.h"
#include "support/message.h"

namespace transom {
namespace {

std::vector<float> floats_of(const TensorView& view) {
  std::vector<float> values(view.bytes.size() / 4);
  std::memcpy(values.data(), view.bytes.data(), view.bytes.size());
  return values;
}

std::vector<float> read(const char* type, int64_t depth, std::vector<uint8_t> bytes) {
  const auto held = std::make_shared<const std::vector<uint8_t>>(std::move(bytes));
  return floats_of(
      dequantised_view(*ggml_matrix(find_ggml_type(type)->id, 1, depth, std::as_bytes(std::span(*held)), held, "w")));
}

TEST(GgmlBlocks, HalvesOfAByteAreSixteenApart) {
  std::vector<uint8_t> block(18);
  const Float16 scale(0.5f);
  std::memcpy(block.data(), &scale, 2);
  block[2] = 0xF1, block[3] = 0x08;
  const std::vector<float> values = read("Q4_0", 32, block);
  EXPECT_EQ(values[0], 0.5f * (1 - 8));
  EXPECT_EQ(values[16], 0.5f * (15 - 8));
  EXPECT_EQ(values[1], 0.0f);
  EXPECT_EQ(values[17], 0.5f * (0 - 8));
}

TEST(GgmlBlocks, SignedBytes) {
  std::vector<uint8_t> block(34);
  const Float16 scale(2.0f);
  std::memcpy(block.data(), &scale, 2);
  block[2] = 0x80, block[3] = 0x7F, block[33] = 0xFF;
  const std::vector<float> values = read("q8_0", 32, block);
  EXPECT_EQ(values[0], -256);
  EXPECT_EQ(values[1], 254);
  EXPECT_EQ(values[31], -2);
}

// Rows as packed weights have them are the rows of codes and scales, for the formats that store them so.
TEST(GgmlBlocks, StoredRowsAreTheSameNumbers) {
  int stored_so = 0;
  for (const char* name : {"Q4_0", "Q4_1", "IQ4_NL", "MXFP4", "Q8_0", "Q5_0", "Q4_K"}) {
    const GgmlType* type = find_ggml_type(name);
    const auto bytes = std::make_shared<std::vector<uint8_t>>(3 * 512 / type->values * type->bytes);
    for (size_t i = 0; i < bytes->size(); ++i) (*bytes)[i] = static_cast<uint8_t>(i * 37 + i / 7 * 11) & 0x7B;
    const auto matrix = ggml_matrix(type->id, 3, 512, std::as_bytes(std::span(*bytes)), bytes, "w");
    const BlockLayout& layout = matrix->layout();
    const auto groups = static_cast<size_t>(layout.groups()), least = layout.has_minima ? groups : 0;
    for (int64_t row = 0; row < 3; ++row) {
      std::vector<uint8_t> codes(512), stored(512);
      std::vector<float> scales(groups), minima(least);
      std::vector<uint16_t> half_scales(groups), half_minima(least);
      matrix->read_row(row, codes.data(), scales.data(), least ? minima.data() : nullptr);
      if (!matrix->read_stored(row, stored.data(), half_scales.data(), least ? half_minima.data() : nullptr)) continue;
      ++stored_so;
      EXPECT_EQ(layout.scale_type, DType::kFloat16) << name;
      for (size_t g = 0; g < groups; ++g) EXPECT_EQ(float_of_half(half_scales[g]), scales[g]) << name;
      for (size_t g = 0; g < least; ++g) EXPECT_EQ(float_of_half(half_minima[g]), minima[g]) << name;
      for (size_t i = 0; i < 512; ++i) {
        const uint8_t pair = stored[i / 32 * 16 + i % 16];
        EXPECT_EQ(codes[i], layout.bits == 8 ? stored[i] : i % 32 < 16 ? pair & 15 : pair >> 4) << name;
      }
    }
  }
  EXPECT_EQ(stored_so, 12);
}

TEST(GgmlBlocks, SizesAreChecked) {
  const uint32_t q4_k = find_ggml_type("Q4_K")->id;
  EXPECT_EQ(ggml_bytes(q4_k, {3, 512}, "w"), 3u * 2 * 144);
  EXPECT_NE(test::message_of([&] {
              ggml_bytes(q4_k, {3, 500}, "w");
            }).find("no whole blocks of 256"),
            std::string::npos);
  const std::vector<std::byte> few(100);
  EXPECT_NE(test::message_of([&] { ggml_matrix(q4_k, 1, 256, few, nullptr, "w"); }).find("does not fit"),
            std::string::npos);
}

// The bits of all blocks of a file, beside those of their values; how many types there are.
int expect_values(const char* name_of_file) {
  const std::filesystem::path root = test::golden_folder(test::GoldenSet::kQuantized);
  const SafetensorsFile file = SafetensorsFile::open(root / name_of_file);
  int types = 0;
  for (const auto& [name, view] : file.tensors()) {
    if (!name.ends_with(".bytes")) continue;
    const std::string type_name = name.substr(0, name.size() - 6);
    const GgmlType* type = find_ggml_type(type_name);
    if (!type || ggml_plain_type(type->id)) continue;
    const TensorView* values = file.find(type_name + ".values");
    if (!values) {
      ADD_FAILURE() << type_name << " has no values";
      continue;
    }
    const auto matrix = ggml_matrix(type->id, values->shape[0], values->shape[1], view.bytes, view.owner, name);
    const std::vector<float> found = floats_of(dequantised_view(*matrix)), expected = floats_of(*values);
    for (size_t i = 0; i < expected.size(); ++i)
      if (std::memcmp(&found[i], &expected[i], 4) != 0) {
        ADD_FAILURE() << type_name << " " << i << ": " << found[i] << " for " << expected[i];
        break;
      }
    ++types;
  }
  return types;
}

// Blocks as ggml wrote them, and their values as ggml reads them.
TEST(GgmlBlocks, HaveTheValuesOfGgml) { EXPECT_GE(expect_values("blocks.safetensors"), 12); }

// Random bytes, and what gguf-py makes of them.
TEST(GgmlBlocks, OfPointsAndOfThreeValuesHaveTheValuesOfGgufPy) { EXPECT_EQ(expect_values("points.safetensors"), 9); }

}  // namespace
}  // namespace transom
