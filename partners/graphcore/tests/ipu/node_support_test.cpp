// SPDX-License-Identifier: Apache-2.0
// Whether the machine runs a node is asked once for like nodes: others have answers of their own.
#include <gtest/gtest.h>

#include <cstdlib>

#include "testing/files.h"
#include "transom/compile.h"
#include "transom/device.h"
#include "transom/error.h"
#include "transom/ops.h"

namespace transom {
namespace {

int64_t runs_on_the_device() { return test::Json::parse(device_report()).at("runs"); }

// Whether a sum of that type and size ran on the device; its value is checked.
bool sum_runs_there(DType dtype, int64_t size) {
  const CompiledFunction sum = compile([](const std::vector<Tensor>& x) { return std::vector{x[0] + x[1]}; }, {});
  const Tensor ones = cast(Tensor::from(std::vector<float>(static_cast<size_t>(size), 1), {size}), dtype);
  eval({ones});
  const int64_t before = runs_on_the_device();
  const Tensor result = sum({ones, ones})[0];
  eval({result});
  const bool there = runs_on_the_device() > before;
  for (const float value : cast(result, DType::kFloat32).to_vector<float>()) EXPECT_EQ(value, 2);
  return there;
}

TEST(IpuNodeSupport, TypesAndShapesAreAskedForThemselves) {
  ::setenv("TRANSOM_EMULATED_IPU", "bow:4", 0);
  try {
    set_device("ipu");
  } catch (const Error& error) {
    GTEST_SKIP() << error.what();
  }
  EXPECT_TRUE(sum_runs_there(DType::kFloat32, 32));
  EXPECT_FALSE(sum_runs_there(DType::kFloat64, 32));
  EXPECT_TRUE(sum_runs_there(DType::kFloat16, 32));
  EXPECT_FALSE(sum_runs_there(DType::kBFloat16, 32));
  EXPECT_TRUE(sum_runs_there(DType::kFloat32, 48));
  EXPECT_FALSE(sum_runs_there(DType::kFloat64, 32));
}

}  // namespace
}  // namespace transom
