// SPDX-License-Identifier: Apache-2.0
// What a plugin's status becomes, so that a caller can tell a batch that is too large from a device that is gone.
#include <gtest/gtest.h>

#include <cstring>

#include "base/error.h"
#include "runtime/device/device.h"

namespace transom {
namespace {

std::pair<ErrorKind, std::string> error_of(const std::function<void()>& function) {
  try {
    function();
  } catch (const Error& error) {
    return {error.kind(), error.what()};
  }
  ADD_FAILURE() << "no error";
  return {};
}

ErrorKind kind_of(transom_status status) {
  transom_error text{};
  std::strcpy(text.text, "a reason");
  const auto [kind, message] = error_of([&] { expect_ok(status, text, "device"); });
  EXPECT_NE(message.find("a reason"), std::string::npos) << message;
  return kind;
}

TEST(ErrorKinds, TellTheFailuresOfADeviceApart) {
  EXPECT_EQ(kind_of(TRANSOM_OUT_OF_MEMORY), ErrorKind::kOutOfMemory);
  EXPECT_EQ(kind_of(TRANSOM_UNSUPPORTED), ErrorKind::kUnsupported);
  EXPECT_EQ(kind_of(TRANSOM_UNAVAILABLE), ErrorKind::kDevice);
  EXPECT_EQ(kind_of(TRANSOM_DEVICE_LOST), ErrorKind::kDeviceLost);
  transom_error none{};
  EXPECT_NO_THROW(expect_ok(TRANSOM_OK, none, "device"));
}

TEST(ErrorKinds, MoreMemoryThanThereIsIsOutOfMemory) {
  const std::shared_ptr<Device> device = Device::open("cpu");
  EXPECT_EQ(error_of([&] { device->allocate(size_t{1} << 60); }).first, ErrorKind::kOutOfMemory);
  EXPECT_EQ(device->allocate(16)->bytes(), 16u) << "the device goes on";
}

TEST(ErrorKinds, HaveNames) {
  EXPECT_EQ(name_of(ErrorKind::kOutOfMemory), "out_of_memory");
  EXPECT_EQ(name_of(ErrorKind::kInterrupted), "interrupted");
  for (const ErrorKind kind : {ErrorKind::kDevice, ErrorKind::kDeviceLost, ErrorKind::kOutOfMemory})
    EXPECT_TRUE(is_device_failure(kind)) << name_of(kind);
  for (const ErrorKind kind : {ErrorKind::kUsage, ErrorKind::kInput, ErrorKind::kInterrupted, ErrorKind::kInternal})
    EXPECT_FALSE(is_device_failure(kind)) << name_of(kind);
}

}  // namespace
}  // namespace transom
