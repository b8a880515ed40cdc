// SPDX-License-Identifier: Apache-2.0
#include "files/checkpoint/converted_view.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>

#include "base/numbers/half.h"

namespace transom {
namespace {

template <typename T>
std::vector<double> read(const TensorView& view) {
  std::vector<double> values(view.bytes.size() / sizeof(T));
  for (size_t i = 0; i < values.size(); ++i) {
    T value;
    std::memcpy(&value, view.bytes.data() + i * sizeof(T), sizeof(T));
    values[i] = static_cast<double>(static_cast<float>(value));
  }
  return values;
}

TEST(ConvertedView, RoundsToNearestEven) {
  // 1 + 2^-8 lies between two values of bf16, 1 + 3 * 2^-8 too; both go to the even one.
  const std::vector<float> values = {0, -1.5F, 1 + 0x1p-8F, 1 + 3 * 0x1p-8F, 1e30F, -INFINITY};
  const TensorView view{DType::kFloat32, {2, 3}, std::as_bytes(std::span(values)), nullptr};
  const auto bf16 = converted_view(view, DType::kBFloat16);
  ASSERT_TRUE(bf16);
  EXPECT_EQ(bf16->dtype, DType::kBFloat16);
  EXPECT_EQ(bf16->shape, view.shape);
  const auto rounded = read<BFloat16>(*bf16);
  EXPECT_EQ(rounded[1], -1.5);
  EXPECT_EQ(rounded[2], 1);
  EXPECT_EQ(rounded[3], 1 + 4 * 0x1p-8);
  EXPECT_NEAR(rounded[4], 1e30, 1e28);
  EXPECT_EQ(rounded[5], -INFINITY);
  EXPECT_EQ(read<float>(*converted_view(*bf16, DType::kFloat32)), rounded);
  const auto f16 = read<Float16>(*converted_view(*bf16, DType::kFloat16));
  EXPECT_EQ(f16[1], -1.5);
  EXPECT_EQ(f16[4], INFINITY) << "beyond the range of f16";
}

TEST(ConvertedView, ReadsFromAnyAddressAndManyChunks) {
  const size_t count = 1'200'001;  // more than one huge page
  std::vector<std::byte> memory(2 * count + 1);
  for (size_t i = 0; i < count; ++i) {
    const BFloat16 value(static_cast<float>(i % 251));
    std::memcpy(memory.data() + 1 + 2 * i, &value, 2);
  }
  const TensorView view{DType::kBFloat16, {static_cast<int64_t>(count)}, std::span(memory).subspan(1), nullptr};
  const auto wide = read<float>(*converted_view(view, DType::kFloat32));
  ASSERT_EQ(wide.size(), count);
  for (size_t i = 0; i < count; ++i) ASSERT_EQ(wide[i], static_cast<double>(i % 251)) << i;
}

TEST(ConvertedView, OtherTypesAreLeft) {
  const std::vector<int64_t> values = {1, 2};
  EXPECT_FALSE(converted_view({DType::kInt64, {2}, std::as_bytes(std::span(values)), nullptr}, DType::kFloat32));
  const std::vector<float> numbers = {1, 2};
  EXPECT_FALSE(converted_view({DType::kFloat32, {2}, std::as_bytes(std::span(numbers)), nullptr}, DType::kInt64));
}

}  // namespace
}  // namespace transom
