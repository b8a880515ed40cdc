// SPDX-License-Identifier: Apache-2.0
#include "testing/offloaded_update.h"

#include <gtest/gtest.h>

#include "hpu_device.h"

namespace transom {
namespace {

TEST(HpuOffloadedUpdate, HasTheBitsOfAStateOnTheDevice) {
  const test::TemporaryFolder folder;
  if (test::Program({"devices"}, folder).wait().output.find("Intel Gaudi") == std::string::npos)
    GTEST_SKIP() << "no Gaudi here";
  test::expect_same_bits_with_less_memory("hpu", folder);
}

}  // namespace
}  // namespace transom
