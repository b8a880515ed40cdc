// SPDX-License-Identifier: Apache-2.0
#include "files/blocks/ggml/ggml_encoder.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <memory>

#include "base/numbers/mt19937.h"
#include "files/blocks/ggml/ggml_blocks.h"
#include "support/message.h"

namespace transom {
namespace {

using test::message_of;

std::vector<float> normal_numbers(size_t count) {
  Mt19937 random(3);
  std::vector<float> numbers(count);
  random.fill_normal(numbers, 0, 0.02);
  return numbers;
}

std::vector<float> read_back(uint32_t type, const std::vector<float>& x, int64_t rows, int64_t depth) {
  const auto bytes = std::make_shared<const std::vector<std::byte>>(encode_ggml(type, x.data(), rows, depth));
  const auto matrix = ggml_matrix(type, rows, depth, *bytes, bytes, "here");
  std::vector<float> y(x.size());
  for (int64_t r = 0; r < rows; ++r) matrix->dequantise_row(r, y.data() + r * depth);
  return y;
}

double relative_error(const char* name, const std::vector<float>& x, int64_t depth) {
  const std::vector<float> y = read_back(find_ggml_type(name)->id, x, static_cast<int64_t>(x.size()) / depth, depth);
  double error = 0, size = 0;
  for (size_t i = 0; i < x.size(); ++i) error += std::pow(x[i] - y[i], 2), size += std::pow(x[i], 2);
  return std::sqrt(error / size);
}

// What ggml's own quantisers lose of normal numbers, and a little.
TEST(GgmlEncoder, LosesNoMoreThanGgmlDoes) {
  const std::vector<float> x = normal_numbers(64 * 512);
  const std::pair<const char*, double> expected[] = {{"Q8_0", 0.0056}, {"Q6_K", 0.0180}, {"Q5_K", 0.0375},
                                                     {"Q5_1", 0.0390}, {"Q5_0", 0.0440}, {"Q4_K", 0.0740},
                                                     {"Q4_1", 0.0800}, {"Q4_0", 0.0860}};
  for (const auto& [name, most] : expected) EXPECT_LE(relative_error(name, x, 512), most) << name;
}

// Numbers that lie on a type's grid come back as they were.
TEST(GgmlEncoder, KeepsNumbersOfTheGrid) {
  std::vector<float> x(32);
  for (int i = 0; i < 32; ++i) x[static_cast<size_t>(i)] = 0.5f * static_cast<float>(i % 16 - 8);
  EXPECT_EQ(read_back(find_ggml_type("Q4_0")->id, x, 1, 32), x);
  for (int i = 0; i < 32; ++i) x[static_cast<size_t>(i)] = 0.25f * static_cast<float>(i - 16);
  EXPECT_EQ(read_back(find_ggml_type("Q5_0")->id, x, 1, 32), x);
  for (int i = 0; i < 32; ++i) x[static_cast<size_t>(i)] = static_cast<float>(i % 16) - 3;
  EXPECT_EQ(read_back(find_ggml_type("Q4_1")->id, x, 1, 32), x);
}

TEST(GgmlEncoder, ZerosAndEqualNumbers) {
  for (const char* name : {"Q8_0", "Q6_K", "Q5_K", "Q5_1", "Q5_0", "Q4_K", "Q4_1", "Q4_0"}) {
    const uint32_t id = find_ggml_type(name)->id;
    EXPECT_EQ(read_back(id, std::vector<float>(256), 1, 256), std::vector<float>(256)) << name;
    for (const float value : {0.75f, -0.75f})
      for (const float found : read_back(id, std::vector<float>(256, value), 1, 256))
        EXPECT_NEAR(found, value, 0.01) << name;
  }
}

TEST(GgmlEncoder, RefusesWhatDoesNotFit) {
  std::vector<float> x(64);
  EXPECT_NE(message_of([&] { encode_ggml(find_ggml_type("Q4_K")->id, x.data(), 1, 64); }).find("whole blocks of 256"),
            std::string::npos);
  EXPECT_NE(message_of([&] { encode_ggml(find_ggml_type("Q3_K")->id, x.data(), 1, 64); }).find("Q3_K"),
            std::string::npos);
  x[40] = std::numeric_limits<float>::quiet_NaN();
  EXPECT_NE(message_of([&] { encode_ggml(find_ggml_type("Q8_0")->id, x.data(), 2, 32); }).find("row 1, number 8"),
            std::string::npos);
}

}  // namespace
}  // namespace transom
