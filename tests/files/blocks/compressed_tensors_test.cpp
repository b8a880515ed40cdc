// SPDX-License-Identifier: Apache-2.0
// The forms of compressed-tensors that Transom does not write: bits across words, blocks of scales, small floats.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "base/json/json.h"
#include "files/blocks/quantization_config.h"
#include "support/message.h"

namespace transom {
namespace {

template <typename T>
TensorView tensor(DType dtype, std::vector<int64_t> shape, const std::vector<T>& values) {
  const auto held = std::make_shared<const std::vector<T>>(values);
  return {dtype, std::move(shape), std::as_bytes(std::span(*held)), held};
}

using Parts = std::map<std::string, TensorView>;

Config config_with(const Json& weights, Json fields = Json::object()) {
  fields["quant_method"] = "compressed-tensors";
  fields["config_groups"] = {{"group_0", {{"targets", {"Linear"}}, {"weights", weights}}}};
  return make_config(fields, "config.json: quantization_config");
}

Checkpoint checkpoint_of(const Parts& parts) {
  Checkpoint checkpoint("m.safetensors");
  for (const auto& [name, view] : parts) checkpoint.add("x." + name, view);
  return checkpoint;
}

std::vector<float> numbers(const Parts& parts, const Config& config) {
  Checkpoint checkpoint = checkpoint_of(parts);
  read_quantized_weights(config, checkpoint);
  EXPECT_TRUE(checkpoint.tensors().empty());
  const TensorView view = dequantised_view(*checkpoint.find_compressed("x.weight")->matrix);
  std::vector<float> result(view.bytes.size() / 4);
  std::memcpy(result.data(), view.bytes.data(), view.bytes.size());
  return result;
}

std::string refusal_of_parts(const Parts& parts, const Config& config) {
  Checkpoint checkpoint = checkpoint_of(parts);
  return test::message_of([&] { read_quantized_weights(config, checkpoint); });
}

// Numbers of `bits` bits side by side, the first in the low bits.
std::vector<int32_t> words_with(const std::vector<int>& codes, int bits) {
  std::vector<int32_t> words((codes.size() * static_cast<size_t>(bits) + 31) / 32);
  for (size_t i = 0; i < codes.size() * static_cast<size_t>(bits); ++i) {
    const auto width = static_cast<size_t>(bits);
    words[i / 32] |= static_cast<int32_t>(static_cast<uint32_t>(codes[i / width] >> (i % width) & 1) << (i % 32));
  }
  return words;
}

TEST(CompressedTensors, BitsMayLieAcrossWords) {
  constexpr int64_t kRows = 3, kDepth = 40;
  for (int bits = 1; bits <= 8; ++bits)
    for (const bool symmetric : {true, false}) {
      const int half = 1 << (bits - 1);
      std::vector<int32_t> packed;
      std::vector<float> expected;
      const std::vector<int> zeros{half - 1, 0, 2 * half - 1};
      const std::vector<float> scales{0.5f, 2, -1};
      for (int64_t r = 0; r < kRows; ++r) {
        std::vector<int> codes(kDepth);
        for (int64_t k = 0; k < kDepth; ++k) {
          codes[static_cast<size_t>(k)] = static_cast<int>(k * 37 + r * 11) % (2 * half);
          const int zero = symmetric ? half : zeros[static_cast<size_t>(r)];
          expected.push_back(scales[static_cast<size_t>(r)] * static_cast<float>(codes[static_cast<size_t>(k)] - zero));
        }
        for (const int32_t word : words_with(codes, bits)) packed.push_back(word);
      }
      const int64_t row = static_cast<int64_t>(packed.size()) / kRows;
      Parts parts{{"weight_packed", tensor(DType::kInt32, {kRows, row}, packed)},
                  {"weight_scale", tensor(DType::kFloat32, {kRows, 1}, scales)},
                  {"weight_shape", tensor<int64_t>(DType::kInt64, {2}, {kRows, kDepth})}};
      const std::vector<int32_t> zero_words = words_with(zeros, bits);
      if (!symmetric)
        parts["weight_zero_point"] = tensor(DType::kInt32, {static_cast<int64_t>(zero_words.size()), 1}, zero_words);
      EXPECT_EQ(numbers(parts, config_with({{"num_bits", bits}, {"symmetric", symmetric}})), expected) << bits;
    }
}

// The last group is short: its size is not told by the number of groups.
TEST(CompressedTensors, GroupsAreThoseOfTheConfiguration) {
  Parts parts{{"weight_packed", tensor(DType::kInt32, {1, 2}, words_with(std::vector<int>(10, 9), 4))},
              {"weight_scale", tensor<float>(DType::kFloat32, {1, 2}, {1, 2})},
              {"weight_shape", tensor<int64_t>(DType::kInt64, {2}, {1, 10})}};
  EXPECT_EQ(numbers(parts, config_with({{"num_bits", 4}, {"group_size", 8}})),
            (std::vector<float>{1, 1, 1, 1, 1, 1, 1, 1, 2, 2}));
}

TEST(CompressedTensors, BlocksHaveScales) {
  const Json weights{{"num_bits", 8}, {"type", "float"}, {"strategy", "block"}, {"block_structure", {2, 3}}};
  const std::vector<float> scales{1, 2, 3, 4};
  const std::vector<float> expected{1, 1, 1, 2, 1, 1, 1, 2, 3, 3, 3, 4};
  EXPECT_EQ(numbers({{"weight", tensor(DType::kUInt8, {3, 4}, std::vector<uint8_t>(12, 0x38))},
                     {"weight_scale", tensor(DType::kFloat32, {2, 2}, scales)}},
                    config_with(weights)),
            expected);
  EXPECT_EQ(numbers({{"weight", tensor(DType::kInt8, {3, 4}, std::vector<int8_t>(12, 1))},
                     {"weight_scale", tensor(DType::kFloat32, {2, 2}, scales)}},
                    config_with(weights)),
            expected);
  EXPECT_NE(refusal_of_parts({{"weight", tensor(DType::kInt8, {3, 4}, std::vector<int8_t>(12, 1))},
                              {"weight_scale", tensor(DType::kFloat32, {2, 2}, scales)}},
                             config_with({{"num_bits", 8}}))
                .find("'x.weight_scale': expected scales for 3 rows, found 4 numbers"),
            std::string::npos);
}

TEST(CompressedTensors, SmallFloatsHavePowersOfTwo) {
  const Json weights{{"num_bits", 6}, {"type", "float"}, {"group_size", 32}};
  std::vector<int> codes(32);
  for (int code = 0; code < 32; ++code) codes[static_cast<size_t>(code)] = 2 * code;  // 0, 2 ... 62
  const std::vector<int32_t> words = words_with(codes, 6);
  std::vector<uint8_t> bytes(24);
  std::memcpy(bytes.data(), words.data(), 24);
  const std::vector<float> six = numbers({{"weight_packed", tensor(DType::kUInt8, {1, 24}, bytes)},
                                          {"weight_scale", tensor<uint8_t>(DType::kUInt8, {1, 1}, {128})}},
                                         config_with(weights));
  EXPECT_EQ(std::vector<float>(six.begin(), six.begin() + 16),
            (std::vector<float>{0, 0.5, 1, 1.5, 2, 2.5, 3, 3.5, 4, 5, 6, 7, 8, 10, 12, 14}));
  EXPECT_EQ(std::vector<float>(six.begin() + 16, six.begin() + 20), (std::vector<float>{-0.0f, -0.5, -1, -1.5}));
  EXPECT_EQ(numbers({{"weight", tensor(DType::kUInt8, {1, 2}, std::vector<uint8_t>{0x38, 0xB8})},
                     {"weight_scale", tensor<uint8_t>(DType::kUInt8, {1, 1}, {126})}},
                    config_with({{"num_bits", 8}, {"type", "float"}})),
            (std::vector<float>{0.5, -0.5}));
}

TEST(CompressedTensors, WhatWouldBeReadWronglyIsRefused) {
  const Json weights{{"num_bits", 8}};
  const TensorView codes = tensor(DType::kInt8, {1, 2}, std::vector<int8_t>{1, 2});
  EXPECT_NE(
      refusal_of_parts({{"weight", codes}}, config_with(weights)).find("'x.weight': holds codes (i8), but the tensors"),
      std::string::npos);
  const auto refusal_of = [&](const Json& fields) { return refusal_of_parts({}, config_with(weights, fields)); };
  EXPECT_NE(refusal_of({{"format", "marlin-24"}}).find("format 'marlin-24' is not supported; dense, "),
            std::string::npos);
  EXPECT_NE(refusal_of({{"transform_config", {{"config_groups", {{"u", 1}}}}}}).find("transform_config"),
            std::string::npos);
  EXPECT_EQ(refusal_of({{"transform_config", Json::object()}}), "");
  EXPECT_NE(refusal_of({{"sparsity_config", {{"format", "sparse-24-bitmask"}}}}).find("'sparse-24-bitmask'"),
            std::string::npos);
  EXPECT_NE(refusal_of_parts({{"weight_packed", tensor(DType::kUInt8, {1, 8}, std::vector<uint8_t>(8))},
                              {"weight_scale", tensor<uint8_t>(DType::kUInt8, {1, 1}, {128})}},
                             config_with(weights))
                .find("'x.weight_global_scale' of a quantised weight is missing"),
            std::string::npos);
  EXPECT_NE(refusal_of_parts({{"weight_packed", tensor(DType::kInt32, {1, 2}, std::vector<int32_t>(2))},
                              {"weight_scale", tensor<float>(DType::kFloat32, {1, 1}, {1})},
                              {"weight_shape", tensor<int64_t>(DType::kInt64, {2}, {1, 16})}},
                             config_with({{"num_bits", 8}}))
                .find("2 words a row of 16 are not of 8 bits, as config_groups says"),
            std::string::npos);
  Parts bytes{{"weight", codes}, {"weight_scale", tensor<float>(DType::kFloat32, {1, 1}, {1})}};
  EXPECT_EQ(refusal_of_parts(bytes, config_with(weights)), "");
  EXPECT_NE(refusal_of_parts(bytes, config_with({{"num_bits", 8}, {"symmetric", false}}))
                .find("'x.weight_zero_point' of a quantised weight is missing"),
            std::string::npos);
  bytes.erase("weight");
  EXPECT_NE(refusal_of_parts(bytes, config_with(weights)).find("'x.weight' of a quantised weight is missing"),
            std::string::npos);
}

}  // namespace
}  // namespace transom
