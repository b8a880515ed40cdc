// SPDX-License-Identifier: Apache-2.0
// A device beside the cpu on which layouts are tried too: TRANSOM_TEST_DEVICE names it, TRANSOM_TEST_BACKEND how its
// processes reach each other. Whoever makes a device sets them, and runs these tests on it.
#pragma once

#include <cstdlib>
#include <string>

#include "support/program.h"

namespace transom::test {

struct DeviceUnderTest {
  std::string device, backend;

  // Whether there are eight of them. `folder` takes what the program writes.
  bool is_here(const std::filesystem::path& folder) const {
    return !device.empty() && Program({"devices"}, folder).wait().output.find(device + ":7") != std::string::npos;
  }
};

inline DeviceUnderTest device_under_test() {
  const char *device = std::getenv("TRANSOM_TEST_DEVICE"), *backend = std::getenv("TRANSOM_TEST_BACKEND");
  return {device ? device : "", backend ? backend : ""};
}

}  // namespace transom::test
