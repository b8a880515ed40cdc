// SPDX-License-Identifier: Apache-2.0
// NaN goes through everything that compares: alone, in fusions, behind products, in vectors and in what is left of
// them.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>

#include "runtime/tensor/mode_scope.h"
#include "transom/device.h"
#include "transom/ops.h"
#include "transom/tensor.h"

namespace transom {
namespace {

const double kPositiveInfinity = std::numeric_limits<double>::infinity();
constexpr DType kTypes[] = {DType::kFloat32, DType::kBFloat16, DType::kFloat16, DType::kFloat64};

Tensor tensor_of(const std::vector<float>& values, const Shape& shape, DType dtype) {
  return cast(Tensor::from(values, shape), dtype);
}

std::vector<double> numbers_of(const Tensor& x) { return x.to_vector<double>(); }

// Numbers of both signs, infinities among them, and the same with NaN at some places.
struct Line {
  explicit Line(size_t size) : numbers(size), with_nan(size), is_nan(size) {
    for (size_t i = 0; i < size; ++i) {
      const float special[] = {std::numeric_limits<float>::infinity(), -std::numeric_limits<float>::infinity(), -0.0f};
      numbers[i] = i % 7 < 3 ? special[i % 7] : static_cast<float>(i % 11) - 5;
      is_nan[i] = i % 5 == size % 5 || i + 1 == size;
      with_nan[i] = is_nan[i] ? std::numeric_limits<float>::quiet_NaN() : numbers[i];
    }
  }
  std::vector<float> numbers, with_nan;
  std::vector<bool> is_nan;
};

using Function = std::function<Tensor(const Tensor&)>;

void expect_nan_stays(const std::string& name, const Function& function) {
  for (const Mode mode : {Mode::kLazy, Mode::kEager}) {
    const ModeScope scope(mode);
    for (const DType dtype : kTypes)
      for (const size_t size : {size_t{1}, size_t{3}, size_t{8}, size_t{17}, size_t{35}, size_t{131}}) {
        const Line line(size);
        const Shape shape{static_cast<int64_t>(size)};
        const std::vector<double> found = numbers_of(function(tensor_of(line.with_nan, shape, dtype))),
                                  expected = numbers_of(function(tensor_of(line.numbers, shape, dtype)));
        for (size_t i = 0; i < size; ++i) {
          if (line.is_nan[i] || std::isnan(expected[i])) {
            EXPECT_TRUE(std::isnan(found[i])) << name << " of NaN is " << found[i];
          } else {
            EXPECT_EQ(found[i], expected[i]) << name;
          }
        }
      }
  }
}

TEST(NotANumber, StaysInActivations) {
  set_device("cpu");
  for (const char* name : {"relu", "relu2", "relu6", "leaky_relu", "elu", "hardswish", "gelu", "gelu_new", "silu",
                           "sigmoid", "tanh", "softplus", "mish", "gelu_10"})
    expect_nan_stays(name, [&](const Tensor& x) { return activation(name, x); });
}

TEST(NotANumber, StaysInTheSmallerAndTheLargerOfTwo) {
  set_device("cpu");
  const auto like = [](const Tensor& x, double value) { return full(x.shape(), value, x.dtype()); };
  expect_nan_stays("max(x, 0)", [&](const Tensor& x) { return maximum(x, like(x, 0)); });
  expect_nan_stays("max(0, x)", [&](const Tensor& x) { return maximum(like(x, 0), x); });
  expect_nan_stays("min(x, 1)", [&](const Tensor& x) { return minimum(x, like(x, 1)); });
  expect_nan_stays("min(1, x)", [&](const Tensor& x) { return minimum(like(x, 1), x); });
  expect_nan_stays("clip", [&](const Tensor& x) { return minimum(maximum(x, like(x, -1)), like(x, 1)); });
}

TEST(NotANumber, StaysInFusions) {
  set_device("cpu");
  expect_nan_stays("2 relu(x) + 1", [](const Tensor& x) { return relu(x) * 2.0 + 1.0; });
  expect_nan_stays("relu(x / 2 - 1)", [](const Tensor& x) { return relu(x * 0.5 - 1.0); });
  expect_nan_stays("relu(relu(x) - 1)", [](const Tensor& x) { return relu(relu(x) - 1.0); });
}

TEST(NotANumber, StaysBehindProducts) {
  set_device("cpu");
  for (const DType dtype : {DType::kFloat32, DType::kBFloat16, DType::kFloat16})
    for (const int64_t rows : {1, 2, 9, 40}) {
      constexpr int64_t kDepth = 24, kColumns = 37;
      std::vector<float> w(kDepth * kColumns, 0.25f), x(static_cast<size_t>(rows * kDepth), 0.5f);
      w[3 * kDepth + 5] = w[(kColumns - 1) * kDepth] = std::numeric_limits<float>::quiet_NaN();
      const Tensor bias = full({kColumns}, -1, dtype);
      const std::vector<double> y =
          numbers_of(relu(linear(tensor_of(x, {rows, kDepth}, dtype), tensor_of(w, {kColumns, kDepth}, dtype), bias)));
      for (size_t i = 0; i < y.size(); ++i) {
        const size_t column = i % kColumns;
        if (column == 3 || column == kColumns - 1) {
          EXPECT_TRUE(std::isnan(y[i])) << name_of(dtype) << " " << rows;
        } else {
          EXPECT_EQ(y[i], 2) << name_of(dtype) << " " << rows;
        }
      }
    }
}

TEST(NotANumber, StaysBehindConvolutions) {
  set_device("cpu");
  for (const int64_t channels : {1, 3, 16, 40}) {
    std::vector<float> image(static_cast<size_t>(channels * 36), 1);
    image[14] = std::numeric_limits<float>::quiet_NaN();
    const std::vector<float> kernel(static_cast<size_t>(channels * channels * 9), 0.5f);
    const Tensor y =
        relu(convolution(Tensor::from(image, {1, channels, 6, 6}), Tensor::from(kernel, {channels, channels, 3, 3}),
                         {.strides = {}, .low = {1, 1}, .high = {1, 1}, .dilations = {}}));
    const std::vector<double> found = numbers_of(y);
    for (size_t i = 0; i < found.size(); ++i) {
      const size_t row = i % 36 / 6, column = i % 6;  // the hole stands at [2, 2]
      const bool sees_it = row >= 1 && row <= 3 && column >= 1 && column <= 3;
      EXPECT_EQ(std::isnan(found[i]), sees_it) << channels << ": " << row << ", " << column;
    }
  }
}

TEST(NotANumber, IsTheExtremeOfWhatHoldsIt) {
  set_device("cpu");
  for (const DType dtype : kTypes)
    for (const size_t size : {size_t{1}, size_t{5}, size_t{16}, size_t{67}})
      for (size_t place = 0; place < size; place += size / 4 + 1) {
        std::vector<float> values(size);
        for (size_t i = 0; i < size; ++i) values[i] = static_cast<float>(i * 7 % 13) - 6;
        values[place] = std::numeric_limits<float>::quiet_NaN();
        const Tensor x = tensor_of(values, {1, static_cast<int64_t>(size)}, dtype);
        for (const Tensor& extreme : {reduce_max(x, {1}), reduce_min(x, {1}), reduce_max(transpose(x, 0, 1), {0})})
          EXPECT_TRUE(std::isnan(numbers_of(extreme)[0])) << name_of(dtype) << size;
        for (const Tensor& where : {arg_max(x, 1), arg_min(x, 1)})
          EXPECT_EQ(where.to_vector<int64_t>()[0], static_cast<int64_t>(place)) << name_of(dtype);
        EXPECT_TRUE(std::isnan(numbers_of(sort(x, 1).first).back())) << name_of(dtype);
        EXPECT_TRUE(std::isnan(numbers_of(top_k(x, 1).first)[0])) << name_of(dtype);
      }
}

TEST(NotANumber, StaysInTheLargestOfWindows) {
  set_device("cpu");
  for (const DType dtype : kTypes) {
    const auto pooled = [&](float middle, float others) {
      std::vector<float> values(2 * 25, others);
      values[12] = values[25 + 12] = middle;
      const Tensor x = tensor_of(values, {1, 2, 5, 5}, dtype);
      return numbers_of(max_pool(x, {.window = {3, 3}, .strides = {1, 1}, .low = {1, 1}, .high = {1, 1}}));
    };
    const std::vector<double> with_nan = pooled(std::numeric_limits<float>::quiet_NaN(), -1),
                              lowest = pooled(-1, -std::numeric_limits<float>::infinity());
    for (size_t i = 0; i < with_nan.size(); ++i) {
      const size_t row = i % 25 / 5, column = i % 5;
      const bool sees_it = row >= 1 && row <= 3 && column >= 1 && column <= 3;
      if (sees_it) {
        EXPECT_TRUE(std::isnan(with_nan[i])) << name_of(dtype);
      } else {
        EXPECT_EQ(with_nan[i], -1) << name_of(dtype);
      }
      // The padding is below everything: -infinity is a value.
      EXPECT_EQ(lowest[i], sees_it ? -1 : -kPositiveInfinity) << name_of(dtype);
    }
  }
}

TEST(LargestNumbers, AreTheirOwnGelu) {
  set_device("cpu");
  const std::vector<float> values{3e38f, -3e38f, 1e25f, -1e25f, 20, -20};
  const Tensor x = Tensor::from(values, {6});
  for (const char* name : {"gelu", "gelu_new"}) {
    const std::vector<double> y = numbers_of(activation(name, x));
    for (size_t i = 0; i < values.size(); ++i)
      EXPECT_EQ(y[i], values[i] > 0 ? static_cast<double>(values[i]) : 0) << name << " of " << values[i];
  }
}

}  // namespace
}  // namespace transom
