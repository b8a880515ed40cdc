// SPDX-License-Identifier: Apache-2.0
#include "support/offloaded_update.h"

#include <gtest/gtest.h>

#include <cstdlib>

#include "base/error.h"

namespace transom {
namespace {

TEST(IpuOffloadedUpdate, HasTheBitsOfAStateOnTheDevice) {
  ::setenv("TRANSOM_EMULATED_IPU", "bow:4", 0);
  try {
    set_device("ipu");
  } catch (const Error& error) {
    GTEST_SKIP() << error.what();
  }
  test::expect_same_bits_with_less_memory();
}

}  // namespace
}  // namespace transom
