// SPDX-License-Identifier: Apache-2.0
// The tests run where a library of Gaudi is: TRANSOM_SYNAPSE_LIBRARY names the emulator's, which CMake sets. On a
// machine with a card they run on that.
#pragma once

#include <gtest/gtest.h>

#include "testing/files.h"
#include "transom/device.h"
#include "transom/error.h"
#include "transom/ops.h"

namespace transom::test {

inline void require_hpu() {
  try {
    set_device("hpu");
  } catch (const Error& error) {
    GTEST_SKIP() << error.what();
  }
}

// What the card counted: recipes that were compiled.
inline int64_t recompilations() { return Json::parse(device_report()).at("recompilations"); }

}  // namespace transom::test
