// SPDX-License-Identifier: Apache-2.0
#include "support/offloaded_update.h"

#include <gtest/gtest.h>

#include "backends/hpu/hpu_device.h"

namespace transom {
namespace {

TEST(HpuOffloadedUpdate, HasTheBitsOfAStateOnTheDevice) {
  test::require_hpu();
  if (testing::Test::IsSkipped()) return;
  test::expect_same_bits_with_less_memory();
}

}  // namespace
}  // namespace transom
