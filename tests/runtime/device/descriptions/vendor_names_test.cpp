// SPDX-License-Identifier: Apache-2.0
// Names of vendors and products, which people try as devices: what to install and to call instead.
#include "runtime/device/descriptions/vendor_names.h"

#include <gtest/gtest.h>

#include "support/message.h"
#include "transom/device.h"

namespace transom {
namespace {

TEST(VendorNames, LeadToWhatRunsThere) {
  EXPECT_NE(advice_for_vendor_name("v70").find("Vitis AI"), std::string::npos);
  EXPECT_NE(advice_for_vendor_name("Radeon:0").find("ROCm"), std::string::npos);
  for (const char* name : {"", "cpu", "v7", "mi", "amd gpu", ":1"}) EXPECT_EQ(advice_for_vendor_name(name), "") << name;
}

TEST(VendorNames, StandInTheError) {
  const std::string message = test::message_of([] { set_device("alveo"); });
  EXPECT_TRUE(message.starts_with("there is no device 'alveo': the Alveo V70 runs")) << message;
  EXPECT_NE(message.find("; Plugins found: "), std::string::npos) << message;
  EXPECT_NE(test::message_of([] { set_device("cpus"); }).find("did you mean 'cpu'?"), std::string::npos);
}

}  // namespace
}  // namespace transom
