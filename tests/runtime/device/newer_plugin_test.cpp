// SPDX-License-Identifier: Apache-2.0
// The example plugin, built with the header of a later minor version: every struct of it is larger than the host's.
#include <gtest/gtest.h>

#include "runtime/device/device.h"
#include "transom/device.h"
#include "transom/ops.h"

namespace transom {
namespace {

TEST(NewerPlugin, RunsTheGraphsOfThisHost) {
  const std::shared_ptr<Device> device = Device::open("example");
  EXPECT_EQ(device->properties().struct_size, sizeof(transom_device_properties));
  EXPECT_STREQ(device->properties().name, "example device");
  EXPECT_EQ(device->table().struct_size, sizeof(transom_plugin));
  EXPECT_GT(device->table().minor, uint32_t{TRANSOM_PLUGIN_MINOR});
  set_device("example");
  const Tensor x = Tensor::scalar(2), y = Tensor::scalar(3);
  EXPECT_EQ(((x + y) * y - x).item<float>(), 13);
  EXPECT_GT(device->memory_use().peak, 0u);
  set_device("cpu");
}

}  // namespace
}  // namespace transom
