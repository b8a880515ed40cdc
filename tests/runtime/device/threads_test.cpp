// SPDX-License-Identifier: Apache-2.0
// Devices opened, asked and used by several threads.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <thread>

#include "runtime/device/device.h"
#include "support/folders.h"
#include "transom/device.h"

namespace transom {
namespace {

TEST(DeviceThreads, OpenOneDeviceOnce) {
  std::shared_ptr<Device> opened[4];
  std::vector<std::thread> threads;
  for (auto& device : opened) threads.emplace_back([&device] { device = Device::open("cpu"); });
  for (std::thread& thread : threads) thread.join();
  for (const auto& device : opened) EXPECT_EQ(device, opened[0]);
}

// Also while others look at all plugins, or choose the best.
TEST(DeviceThreads, AskWhatThereIs) {
  std::vector<std::thread> threads;
  std::atomic<int> missing{0};
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      const std::vector<std::byte> bytes(100, static_cast<std::byte>(t));
      std::vector<std::byte> back(bytes.size());
      if (t % 2) {
        default_device()->upload(bytes)->read(back);
        missing += back != bytes;
      } else {
        missing += list_devices().empty();
      }
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(missing, 0);
}

// A plugin that hangs while it is tried holds up nobody who wants another device.
TEST(DeviceThreads, DoNotWaitForAnotherPlugin) {
  setenv("TRANSOM_PLUGIN_PATH", (test::build_folder() + "/faulty_plugins").c_str(), 1);
  setenv("TRANSOM_PLUGIN_TIMEOUT", "1", 1);
  std::atomic<bool> done{false};
  std::thread other([&] {
    EXPECT_THROW(Device::open("hangs"), std::exception);
    done = true;
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(200));
  const bool was_done = done;  // in a process that has tried it before
  EXPECT_EQ(Device::open("reference")->name(), "reference");
  EXPECT_EQ(was_done, done);
  other.join();
}

TEST(DeviceThreads, ReadAndWriteInTurns) {
  const std::shared_ptr<Device> device = Device::open("cpu");
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      for (int i = 0; i < 200; ++i) {
        const std::vector<std::byte> bytes(static_cast<size_t>(1 + (i * 37) % 5000), static_cast<std::byte>(t));
        std::vector<std::byte> back(bytes.size());
        device->upload(bytes)->read(back);
        wrong += back != bytes;
        const auto turn = device->take_turn();
        wrong += device->arena(bytes.size())->bytes() < bytes.size();
      }
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
}

}  // namespace
}  // namespace transom
