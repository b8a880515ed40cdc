// SPDX-License-Identifier: Apache-2.0
#include "testing/on_policy.h"

#include <gtest/gtest.h>

#include <cstdlib>

namespace transom {
namespace {

TEST(IpuOnPolicy, SamplesHaveTheBitsOfTraining) {
  ::setenv("TRANSOM_EMULATED_IPU", "bow:4", 0);
  const test::TemporaryFolder folder;
  if (test::Program({"devices"}, folder).wait().output.find("ipu") == std::string::npos)
    GTEST_SKIP() << "no IPU is here";
  test::expect_on_policy("ipu", folder);
}

}  // namespace
}  // namespace transom
