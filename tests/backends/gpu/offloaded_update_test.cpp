// SPDX-License-Identifier: Apache-2.0
#include "support/offloaded_update.h"

#include <gtest/gtest.h>

#include "backends/gpu/gpu_device.h"
#include "base/error.h"

namespace transom {
namespace {

TEST(GpuOffloadedUpdate, HasTheBitsOfAStateOnTheDevice) {
  backend_test::use_emulated_drivers();
  try {
    set_device("cuda");
  } catch (const Error& error) {
    GTEST_SKIP() << error.what();
  }
  test::expect_same_bits_with_less_memory();
}

}  // namespace
}  // namespace transom
