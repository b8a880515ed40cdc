// SPDX-License-Identifier: Apache-2.0
// What depends on frozen tensors alone is computed at the first run, once for all programs that need it, and has the
// bits that it has where nothing is frozen.
#include <gtest/gtest.h>

#include <cmath>

#include "runtime/programs/compilation.h"
#include "support/test_names.h"
#include "transom/compile.h"
#include "transom/device.h"
#include "transom/ops.h"

namespace transom {
namespace {

using Floats = std::vector<float>;

Tensor frozen(const Floats& values, Shape shape) {
  const auto owner = std::make_shared<Floats>(values);
  return Tensor::from_frozen(std::as_bytes(std::span(*owner)), {DType::kFloat32, std::move(shape)}, owner);
}

class FrozenValues : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override { set_device(GetParam()); }
  void TearDown() override { set_mode(Mode::kLazy); }

  const Floats weight_{0.7F, 3.1F, 0.2F, 9.0F};
  static Tensor scaled(const Tensor& x, const Tensor& weight) { return x * (rsqrt(weight + 1e-5) * 3.0); }
};

TEST_P(FrozenValues, AreComputedOnceForAllShapes) {
  const Tensor weight = frozen(weight_, {4});
  size_t programs[3];
  for (int64_t rows = 1; rows <= 3; ++rows) {
    const RecordCompilations record;
    scaled(Tensor::from(Floats(static_cast<size_t>(4 * rows), 1.5F), {rows, 4}), weight).to_bytes();
    programs[rows - 1] = record.compilations().size();
  }
  EXPECT_EQ(programs[0], 2u);  // the value, and what uses it
  EXPECT_EQ(programs[1], 1u);
  EXPECT_EQ(programs[2], 1u);
}

TEST_P(FrozenValues, HaveTheSameBitsInEveryMode) {
  const Floats x{1, -2, 3, 4, 0.5F, 6, -7, 8};
  const auto expected = scaled(Tensor::from(x, {2, 4}), Tensor::from(weight_, {4})).to_bytes();
  const Tensor weight = frozen(weight_, {4});
  for (int repeat = 0; repeat < 2; ++repeat) {
    EXPECT_EQ(scaled(Tensor::from(x, {2, 4}), weight).to_bytes(), expected);
    for (const bool capture : {false, true}) {
      const CompiledFunction function =
          compile([&](const std::vector<Tensor>& in) -> std::vector<Tensor> { return {scaled(in[0], weight)}; },
                  {.name = "test", .capture = capture});
      for (int run = 0; run < 2; ++run)
        EXPECT_EQ(function({Tensor::from(x, {2, 4})})[0].to_bytes(), expected) << capture;
    }
    set_mode(Mode::kEager);
    EXPECT_EQ(scaled(Tensor::from(x, {2, 4}), weight).to_bytes(), expected);
    set_mode(Mode::kLazy);
  }
}

// Another weight of the same shape shares the program, not the value.
TEST_P(FrozenValues, BelongToTheirWeights) {
  for (const float value : {1.0F, 4.0F, 16.0F}) {
    const Tensor weight = frozen(Floats(4, value), {4});
    const Tensor y = Tensor::from(Floats(4, 1), {4}) * sqrt(weight);
    EXPECT_EQ(y.to_vector<float>(), Floats(4, std::sqrt(value)));
  }
}

INSTANTIATE_TEST_SUITE_P(Devices, FrozenValues, testing::Values("cpu", "reference"), test::NameOfCase());

}  // namespace
}  // namespace transom
