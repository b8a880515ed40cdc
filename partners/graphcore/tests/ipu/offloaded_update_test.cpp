// SPDX-License-Identifier: Apache-2.0
#include "testing/offloaded_update.h"

#include <gtest/gtest.h>

#include <cstdlib>

namespace transom {
namespace {

TEST(IpuOffloadedUpdate, HasTheBitsOfAStateOnTheDevice) {
  ::setenv("TRANSOM_EMULATED_IPU", "bow:4", 0);
  const test::TemporaryFolder folder;
  if (test::Program({"devices"}, folder).wait().output.find("ipu") == std::string::npos)
    GTEST_SKIP() << "no IPU is here";
  test::expect_same_bits_with_less_memory("ipu", folder);
}

}  // namespace
}  // namespace transom
