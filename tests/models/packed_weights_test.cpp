// SPDX-License-Identifier: Apache-2.0
// Matrices of codes: what they hold, and products with them on the default device.
#include "models/loading/weights/packed_weights.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/files/files.h"
#include "files/blocks/coded_matrix.h"
#include "files/blocks/ggml/ggml_blocks.h"
#include "files/blocks/quantization_config.h"
#include "files/blocks/rounded_matrix.h"
#include "support/resident_pages.h"
#include "support/temporary_folder.h"
#include "support/test_names.h"
#include "transom/ops.h"

namespace transom {
namespace {

std::vector<float> wave(int64_t count, double phase) {
  std::vector<float> values(static_cast<size_t>(count));
  for (size_t i = 0; i < values.size(); ++i)
    values[i] = static_cast<float>(std::sin(phase + 1.7 * static_cast<double>(i * i % 1009)));
  return values;
}

// Codes from `lowest` on, `count` of them, or all that there are.
class Listed : public BlockMatrix {
 public:
  explicit Listed(BlockLayout layout, int64_t lowest = 0, int64_t count = 0)
      : BlockMatrix(std::move(layout)), lowest_(lowest), count_(count > 0 ? count : 1 << this->layout().bits) {}
  void read_row(int64_t row, uint8_t* codes, float* scales, float*) const override {
    for (int64_t k = 0; k < layout().depth; ++k) codes[k] = static_cast<uint8_t>(lowest_ + (7 * k + 3 * row) % count_);
    for (int64_t g = 0; g < layout().groups(); ++g) scales[g] = 0.1f * static_cast<float>(g + 1 + row % 3);
  }

 private:
  int64_t lowest_, count_;
};

struct PackedCase {
  int bits;
  int64_t rows, depth, group;
  enum Kind { kPlain, kMinima, kValues, kSteps, kHalves, kOfFiveBits, kOfSixBits } kind;
};

std::shared_ptr<const BlockMatrix> matrix_of(const PackedCase& c, const std::vector<float>& numbers) {
  if (c.kind < PackedCase::kValues)
    return rounded_matrix(numbers.data(), c.rows, c.depth,
                          {.bits = c.bits, .group = c.group, .symmetric = c.kind == PackedCase::kPlain});
  BlockLayout layout{.rows = c.rows, .depth = c.depth, .bits = c.bits, .group = c.group};
  if (c.kind == PackedCase::kOfFiveBits) return std::make_shared<Listed>(std::move(layout), 112, 32);
  if (c.kind == PackedCase::kOfSixBits) return std::make_shared<Listed>(std::move(layout), 96, 64);
  layout.values = wave(c.bits == 4 ? 16 : 256, 5);
  if (c.kind == PackedCase::kSteps)  // IQ4_NL
    layout.values = {-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113};
  if (c.kind == PackedCase::kHalves)  // MXFP4
    layout.values = {0, .5, 1, 1.5, 2, 3, 4, 6, -0.0f, -.5, -1, -1.5, -2, -3, -4, -6};
  return std::make_shared<Listed>(std::move(layout));
}

double packed_difference(const std::vector<float>& found, const std::vector<float>& expected) {
  double error = 0, size = 1e-30;
  for (size_t i = 0; i < expected.size(); ++i) {
    error += std::pow(static_cast<double>(found[i]) - static_cast<double>(expected[i]), 2);
    size += std::pow(static_cast<double>(expected[i]), 2);
  }
  return std::sqrt(error / size);
}

class PackedWeights : public testing::TestWithParam<PackedCase> {};

TEST_P(PackedWeights, HoldTheNumbersOfTheCodes) {
  const std::vector<float> numbers = wave(GetParam().rows * GetParam().depth, 2);
  const auto matrix = matrix_of(GetParam(), numbers);
  const auto packed = packed_matrix(*matrix);
  ASSERT_TRUE(packed);
  const TensorView view = dequantised_view(*matrix);
  std::vector<float> expected(view.bytes.size() / 4);
  std::memcpy(expected.data(), view.bytes.data(), view.bytes.size());
  EXPECT_LT(packed_difference(dequantised(*packed).to_vector<float>(), expected), 1e-7);
  const Tensor ids = Tensor::from(std::vector<int64_t>{GetParam().rows - 1, 0, 2}, {3, 1});
  const std::vector<float> rows = dequantised_rows(*packed, ids).to_vector<float>();
  const auto depth = static_cast<size_t>(GetParam().depth);
  const std::vector<float> last(expected.end() - static_cast<ptrdiff_t>(depth), expected.end());
  EXPECT_LT(packed_difference({rows.begin(), rows.begin() + static_cast<ptrdiff_t>(depth)}, last), 1e-7);
}

TEST_P(PackedWeights, MultiplyAsTheDequantisedMatrix) {
  const std::vector<float> numbers = wave(GetParam().rows * GetParam().depth, 2);
  PackedMatrix packed = *packed_matrix(*matrix_of(GetParam(), numbers));
  const Tensor bias = Tensor::from(wave(GetParam().rows, 3), {GetParam().rows});
  for (const int64_t m : {1, 2, 5, 8, 17}) {
    const Tensor x = Tensor::from(wave(m * GetParam().depth, 1), {m, GetParam().depth});
    const auto expected = linear(x, dequantised(packed), bias).to_vector<float>();
    packed.activations = "float32";
    EXPECT_LT(packed_difference(quantized_matmul(x, packed, bias).to_vector<float>(), expected), 2e-6) << m;
    EXPECT_LT(packed_difference(quantized_matmul(cast(x, DType::kBFloat16), packed, bias).to_vector<float>(), expected),
              0.02)
        << m;
    for (const char* activations : {"int8", "int8_token"}) {
      packed.activations = activations;
      const double error = packed_difference(quantized_matmul(x, packed, bias).to_vector<float>(), expected);
      EXPECT_LT(error, 0.02) << m << " " << activations;
      EXPECT_GT(error, 0) << "the inputs have 8 bits";
    }
    packed.activations = "int16";
    EXPECT_LT(packed_difference(quantized_matmul(x, packed, bias).to_vector<float>(), expected), 2e-4) << m;
  }
}

// A row's numbers are those that it has alone, in every tile of rows and behind the first 64 that are multiplied
// together.
TEST_P(PackedWeights, RowsDoNotSeeEachOther) {
  const std::vector<float> numbers = wave(GetParam().rows * GetParam().depth, 2);
  PackedMatrix packed = *packed_matrix(*matrix_of(GetParam(), numbers));
  const int64_t m = 77, depth = GetParam().depth;
  const std::vector<float> inputs = wave(m * depth, 1);
  for (const char* activations : {"float32", "int8", "int16", "int8_token"}) {
    packed.activations = activations;
    const auto together = quantized_matmul(Tensor::from(inputs, {m, depth}), packed).to_vector<float>();
    for (int64_t row = 0; row < m; ++row) {
      const std::vector<float> one(inputs.begin() + row * depth, inputs.begin() + (row + 1) * depth);
      const auto alone = quantized_matmul(Tensor::from(one, {1, depth}), packed).to_vector<float>();
      ASSERT_EQ(std::memcmp(alone.data(), together.data() + row * GetParam().rows, alone.size() * 4), 0)
          << activations << row;
    }
  }
}

std::string name_of_packed(const testing::TestParamInfo<PackedCase>& info) {
  const PackedCase& c = info.param;
  const char* kinds[] = {"plain", "minima", "values", "steps", "halves", "of_five_bits", "of_six_bits"};
  return test::words(c.bits, "bits", c.rows, "by", c.depth, "groups_of", c.group, kinds[c.kind]);
}

INSTANTIATE_TEST_SUITE_P(
    Cases, PackedWeights,
    testing::Values(PackedCase{4, 16, 32, 32, PackedCase::kPlain}, PackedCase{4, 37, 96, 32, PackedCase::kPlain},
                    PackedCase{4, 37, 160, 16, PackedCase::kMinima}, PackedCase{4, 5, 72, 64, PackedCase::kMinima},
                    PackedCase{4, 48, 256, 128, PackedCase::kPlain}, PackedCase{4, 19, 64, 32, PackedCase::kValues},
                    PackedCase{8, 33, 96, 32, PackedCase::kPlain}, PackedCase{8, 17, 64, 16, PackedCase::kPlain},
                    PackedCase{8, 20, 100, 0, PackedCase::kPlain}, PackedCase{8, 3, 130, 0, PackedCase::kMinima},
                    PackedCase{8, 40, 96, 16, PackedCase::kMinima}, PackedCase{8, 21, 70, 32, PackedCase::kValues},
                    PackedCase{4, 37, 96, 32, PackedCase::kSteps}, PackedCase{4, 33, 72, 16, PackedCase::kHalves},
                    PackedCase{4, 18, 128, 32, PackedCase::kHalves}, PackedCase{4, 16, 80, 64, PackedCase::kSteps},
                    PackedCase{8, 48, 96, 32, PackedCase::kOfFiveBits},
                    PackedCase{8, 33, 160, 64, PackedCase::kOfFiveBits},
                    PackedCase{8, 48, 96, 16, PackedCase::kOfSixBits},
                    PackedCase{8, 18, 72, 16, PackedCase::kOfSixBits},
                    PackedCase{8, 32, 96, 32, PackedCase::kOfSixBits}),
    name_of_packed);

// Inputs that 8 bits hold as they are: codes that stand for integers or halves lose nothing, and the loader takes them.
TEST(PackedProducts, OfTablesOfIntegersAreExact) {
  for (const auto kind : {PackedCase::kSteps, PackedCase::kHalves}) {
    const PackedCase c{4, 37, 96, 32, kind};
    const auto matrix = matrix_of(c, {});
    EXPECT_EQ(rounded_activations(matrix->layout()), "int8");
    EXPECT_EQ(fast_activations(matrix->layout()), "int8");
    PackedMatrix packed = *packed_matrix(*matrix);
    for (const int64_t m : {1, 3, 9}) {
      std::vector<float> x(static_cast<size_t>(m * c.depth));
      for (size_t i = 0; i < x.size(); ++i)
        x[i] = i % 32 == 5 ? 127 : static_cast<float>(static_cast<int>(i * 37 % 251) - 125);
      const Tensor inputs = Tensor::from(x, {m, c.depth});
      const auto expected = linear(inputs, dequantised(packed)).to_vector<float>();
      packed.activations = "int8";
      EXPECT_LT(packed_difference(quantized_matmul(inputs, packed).to_vector<float>(), expected), 1e-6) << m;
    }
  }
  BlockLayout other{.rows = 4, .depth = 32, .bits = 4};
  other.values = wave(16, 5);
  EXPECT_EQ(rounded_activations(other), "float32");
}

// compressed-tensors' w8a8 has a scale of the largest magnitude / 127.5, so that the largest negative number lies
// between two codes: ties go to the even one, and codes end at -128 and 127.
TEST(PackedProducts, RoundTiesOfTokensToEven) {
  const int64_t depth = 32;
  CodedMatrix identity({.rows = depth, .depth = depth, .bits = 8, .group = depth});
  std::fill(identity.scales.begin(), identity.scales.end(), 1.0f);
  std::fill(identity.codes.begin(), identity.codes.end(), uint8_t{128});
  for (int64_t i = 0; i < depth; ++i) identity.codes[static_cast<size_t>(i * depth + i)] = 129;
  PackedMatrix packed = *packed_matrix(identity);
  packed.activations = "int8_token";
  for (const int64_t rows : {1, 3, 8, 17}) {
    std::vector<float> x(static_cast<size_t>(rows * depth)), expected(x.size());
    for (int64_t row = 0; row < rows; ++row) {  // the scale is 1, of another row 2: it is each row's own
      const float scale = row % 2 == 0 ? 1.0f : 2.0f;
      const std::vector<std::pair<float, float>> cases{{-127.5f, -128}, {127.5f, 127},   {0.5f, 0},   {1.5f, 2},
                                                       {2.5f, 2},       {-0.5f, 0},      {-1.5f, -2}, {-2.5f, -2},
                                                       {126.5f, 126},   {-126.5f, -126}, {0.25f, 0}};
      for (size_t i = 0; i < cases.size(); ++i) {
        x[static_cast<size_t>(row * depth) + i] = scale * cases[i].first;
        expected[static_cast<size_t>(row * depth) + i] = scale * cases[i].second;
      }
    }
    EXPECT_EQ(quantized_matmul(Tensor::from(x, {rows, depth}), packed).to_vector<float>(), expected) << rows;
  }
}

// The largest codes and inputs at once: no sum saturates.
TEST(PackedProducts, DoNotSaturate) {
  for (const int bits : {4, 8}) {
    const int64_t depth = 2048;
    const std::vector<float> ones(static_cast<size_t>(16 * depth), bits == 4 ? -1.0f : 1.0f);
    PackedMatrix packed = *packed_matrix(*rounded_matrix(ones.data(), 16, depth, {.bits = bits, .group = 32}));
    for (const float sign : {1.0f, -1.0f}) {
      const Tensor x = Tensor::from(std::vector<float>(static_cast<size_t>(depth), sign), {1, depth});
      packed.activations = "int8";
      const double expected = sign * static_cast<double>(depth) * (bits == 4 ? -1 : 1);
      EXPECT_NEAR(quantized_matmul(x, packed).to_vector<double>()[0], expected, 1e-3 * static_cast<double>(depth));
    }
  }
}

// Codes of five and six bits at their ends, and one that is not of them, beside the largest inputs: kernels may keep
// such sums in 16 bits.
TEST(PackedProducts, OfCodesOfFewBitsAreExact) {
  struct Range {
    int64_t group;
    int lowest, highest;
  };
  const int64_t rows = 16, depth = 256;
  for (const auto& [group, lowest, highest] :
       {Range{16, 96, 159}, Range{16, 95, 159}, Range{16, 96, 160}, Range{32, 112, 143}, Range{32, 111, 143},
        Range{32, 112, 144}, Range{64, 112, 143}, Range{32, 96, 159}, Range{16, 0, 255}}) {
    CodedMatrix matrix({.rows = rows, .depth = depth, .bits = 8, .group = group});
    std::fill(matrix.scales.begin(), matrix.scales.end(), 1.0f);
    // Each row against one of the signs of the inputs, and against none.
    for (int64_t row = 0; row < rows; ++row)
      for (int64_t k = 0; k < depth; ++k) {
        const bool high = row < 2 ? row == 1 : row % 2 == (k >> (row / 2 % 4)) % 2;
        matrix.codes[static_cast<size_t>(row * depth + k)] = static_cast<uint8_t>(high ? highest : lowest);
      }
    PackedMatrix packed = *packed_matrix(matrix);
    for (const char* activations : {"int8", "int8_token"})
      for (const int64_t m : {1, 4, 7, 8, 33}) {
        // Ties of tokens go to -128 and 127.
        const bool by_token = std::string_view(activations) == "int8_token";
        const float largest = by_token ? 127.5f : 127.0f, least = by_token ? -128.0f : -127.0f;
        std::vector<float> x(static_cast<size_t>(m * depth)), expected(static_cast<size_t>(m * rows));
        for (int64_t i = 0; i < m; ++i)
          for (int64_t k = 0; k < depth; ++k) {
            const bool minus = i % 6 < 2 ? i % 6 == 0 : (k >> (i % 6 - 2)) % 2 != 0;
            x[static_cast<size_t>(i * depth + k)] = minus ? -largest : largest;
            for (int64_t row = 0; row < rows; ++row)
              expected[static_cast<size_t>(i * rows + row)] +=
                  (minus ? least : 127.0f) *
                  static_cast<float>(matrix.codes[static_cast<size_t>(row * depth + k)] - 128);
          }
        packed.activations = activations;
        EXPECT_EQ(quantized_matmul(Tensor::from(x, {m, depth}), packed).to_vector<float>(), expected)
            << group << " " << lowest << " " << highest << " " << m << activations;
      }
  }
}

// The greatest sums that codes of any bits and inputs of 16 bits have: on their way they stay in 32 bits.
TEST(PackedProducts, OfInputsOf16BitsAreWhole) {
  const int64_t rows = 32, depth = 128;
  for (const int bits : {4, 8})
    for (const int64_t group : {16, 32, 128}) {
      CodedMatrix matrix({.rows = rows, .depth = depth, .bits = bits, .group = group});
      std::fill(matrix.scales.begin(), matrix.scales.end(), 1.0f);
      const int highest = bits == 4 ? 15 : 255, middle = bits == 4 ? 8 : 128;
      for (int64_t row = 0; row < rows; ++row)
        for (int64_t k = 0; k < depth; ++k)
          matrix.codes[static_cast<size_t>(row * depth + k)] =
              static_cast<uint8_t>(row < 2 ? row * highest : row * 37 * (k + 1) % (highest + 1));
      PackedMatrix packed = *packed_matrix(matrix);
      packed.activations = "int16";
      for (const int64_t m : {1, 2, 4, 7, 33}) {
        std::vector<float> x(static_cast<size_t>(m * depth));
        for (int64_t i = 0; i < m; ++i)
          for (int64_t k = 0; k < depth; ++k)
            x[static_cast<size_t>(i * depth + k)] =
                i < 2 ? (i == 0 ? 32767.0f : -32767.0f) : static_cast<float>((i * 7919 + k * k * 271) % 65535 - 32767);
        const auto found = quantized_matmul(Tensor::from(x, {m, depth}), packed).to_vector<float>();
        for (int64_t i = 0; i < m; ++i)
          for (int64_t row = 0; row < rows; ++row) {
            double expected = 0, size = 1;
            for (int64_t k = 0; k < depth; ++k) {
              const double product = static_cast<double>(x[static_cast<size_t>(i * depth + k)]) *
                                     (matrix.codes[static_cast<size_t>(row * depth + k)] - middle);
              expected += product, size += std::fabs(product);
            }
            // Of numbers that are not the largest of their 32, half a step is lost.
            ASSERT_NEAR(found[static_cast<size_t>(i * rows + row)], expected, size * (i < 2 ? 1e-6 : 3e-5))
                << bits << " " << group << " " << m << " " << i << " " << row;
          }
      }
    }
}

TEST(PackedProducts, ZerosAndWhatIsNotFinite) {
  const std::vector<float> numbers = wave(16 * 64, 2);
  PackedMatrix packed = *packed_matrix(*rounded_matrix(numbers.data(), 16, 64, {.bits = 4, .group = 32}));
  packed.activations = "int8";
  EXPECT_EQ(quantized_matmul(full({1, 64}, 0), packed).to_vector<float>(), std::vector<float>(16, 0.0f));
  std::vector<float> x(64, 1.0f);
  x[40] = INFINITY;
  for (const float y : quantized_matmul(Tensor::from(x, {1, 64}), packed).to_vector<float>())
    EXPECT_FALSE(std::isfinite(y));
}

TEST(PackedProducts, ColumnsInAnotherOrder) {
  BlockLayout layout{.rows = 4, .depth = 32, .bits = 8, .group = 32};
  layout.values = wave(256, 5);
  const PackedMatrix sorted = *packed_matrix(Listed(layout));
  for (int64_t k = 0; k < 32; ++k) layout.order.push_back((5 * k + 3) % 32);
  const PackedMatrix shuffled = *packed_matrix(Listed(layout));
  const auto a = dequantised(sorted).to_vector<float>(), b = dequantised(shuffled).to_vector<float>();
  for (size_t k = 0; k < 32; ++k) EXPECT_EQ(b[static_cast<size_t>(layout.order[k])], a[k]);
  const Tensor x = Tensor::from(wave(64, 1), {2, 32});
  EXPECT_LT(packed_difference(quantized_matmul(x, shuffled).to_vector<float>(),
                              linear(x, dequantised(shuffled)).to_vector<float>()),
            2e-6);
}

// What is packed is not held a second time by the file that it was read from.
TEST(PackedFiles, LetGoOfTheirPages) {
  const test::TemporaryFolder folder;
  constexpr int64_t kRows = 64, kDepth = 1024;
  std::string blocks;  // q8_0: the scale 1, and 32 codes
  for (int64_t block = 0; block < kRows * kDepth / 32; ++block) {
    blocks += std::string("\x00\x3c", 2);
    for (int64_t k = 0; k < 32; ++k) blocks += static_cast<char>((block + k) % 100);
  }
  write_file(folder / "blocks", blocks);
  const auto file = MappedFile::open(folder / "blocks");
  const auto matrix = ggml_matrix(find_ggml_type("q8_0")->id, kRows, kDepth, file->bytes(), file, "blocks");
  const std::vector<float> numbers = dequantised(*packed_matrix(*matrix)).to_vector<float>();
  EXPECT_LE(test::resident_pages(file->bytes()), 1u);  // the part of a page at the end
  for (size_t i = 0; i < numbers.size(); ++i) ASSERT_EQ(numbers[i], static_cast<float>((i / 32 + i % 32) % 100)) << i;
  EXPECT_EQ(dequantised(*packed_matrix(*matrix)).to_vector<float>(), numbers);  // they come back
}

// The same for words of GPTQ and compressed-tensors, which lie in the file as they are read.
TEST(PackedFiles, OfWordsLetGoOfTheirPages) {
  const test::TemporaryFolder folder;
  constexpr int64_t kInputs = 1024, kOutputs = 256, kGroups = 8;
  std::string words(static_cast<size_t>(kInputs * kOutputs / 2), 0);
  for (size_t i = 0; i < words.size(); ++i) words[i] = static_cast<char>(i * 31 % 251);
  write_file(folder / "words", words);
  const auto file = MappedFile::open(folder / "words");
  const auto numbers = [](int64_t count) {
    const auto held = std::make_shared<std::vector<float>>(static_cast<size_t>(count), 0.5f);
    return std::pair{std::as_bytes(std::span(*held)), held};
  };
  const auto [scale_bytes, scales] = numbers(kGroups * kOutputs);
  const auto [zero_bytes, zeros] = numbers(kGroups * kOutputs / 8);
  const auto shape = std::make_shared<std::vector<int64_t>>(std::vector<int64_t>{kOutputs, kInputs});
  for (const bool gptq : {true, false}) {
    Checkpoint checkpoint("a file");
    if (gptq) {
      checkpoint.add("m.qweight", {DType::kInt32, {kInputs / 8, kOutputs}, file->bytes(), file});
      checkpoint.add("m.qzeros", {DType::kInt32, {kGroups, kOutputs / 8}, zero_bytes, zeros});
      checkpoint.add("m.scales", {DType::kFloat32, {kGroups, kOutputs}, scale_bytes, scales});
      read_quantized_weights(Config::parse(R"({"quant_method": "gptq", "bits": 4, "group_size": 128})", "c"),
                             checkpoint);
    } else {
      checkpoint.add("m.weight_packed", {DType::kInt32, {kOutputs, kInputs / 8}, file->bytes(), file});
      checkpoint.add("m.weight_shape", {DType::kInt64, {2}, std::as_bytes(std::span(*shape)), shape});
      checkpoint.add("m.weight_scale", {DType::kFloat32, {kOutputs, kGroups}, scale_bytes, scales});
      read_quantized_weights(Config::parse(R"({"quant_method": "compressed-tensors"})", "c"), checkpoint);
    }
    const CompressedWeight* weight = checkpoint.find_compressed("m.weight");
    ASSERT_TRUE(weight);
    const std::vector<float> first = dequantised(*packed_matrix(*weight->matrix)).to_vector<float>();
    EXPECT_LE(test::resident_pages(file->bytes()), 1u);
    EXPECT_EQ(dequantised(*packed_matrix(*weight->matrix)).to_vector<float>(), first) << "they come back";
  }
}

TEST(PackedRows, AreWithinHalfAStep) {
  const std::vector<float> numbers = wave(7 * 40, 2);
  const auto found = dequantised(packed_by_row(Tensor::from(numbers, {7, 40}))).to_vector<float>();
  for (size_t i = 0; i < numbers.size(); ++i) EXPECT_LE(std::abs(found[i] - numbers[i]), 0.501 / 127) << i;
}

}  // namespace
}  // namespace transom
