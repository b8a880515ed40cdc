// SPDX-License-Identifier: Apache-2.0
#include "testing/on_policy.h"

#include <gtest/gtest.h>

#include "hpu_device.h"

namespace transom {
namespace {

TEST(HpuOnPolicy, SamplesHaveTheBitsOfTraining) {
  const test::TemporaryFolder folder;
  if (test::Program({"devices"}, folder).wait().output.find("Intel Gaudi") == std::string::npos)
    GTEST_SKIP() << "no Gaudi here";
  test::expect_on_policy("hpu", folder);
}

}  // namespace
}  // namespace transom
