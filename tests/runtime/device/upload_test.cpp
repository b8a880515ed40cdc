// SPDX-License-Identifier: Apache-2.0
// Uploads to a device that is not the host (distant_plugin.cpp): their bytes arrive, and the host does not wait.
#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <thread>

#include "base/json/json.h"
#include "runtime/device/device.h"
#include "support/folders.h"

namespace transom {
namespace {

class Uploads : public testing::Test {
 protected:
  void SetUp() override {
    setenv("TRANSOM_PLUGIN_PATH", (test::build_folder() + "/partial_plugins").c_str(), 1);
    device_ = Device::open("distant");
  }
  int64_t count(const char* name) const {
    return parse_json(device_->table().device_report(device_->handle()), "the report").at(name).get<int64_t>();
  }
  static std::vector<std::byte> bytes(size_t size, int seed) {
    std::vector<std::byte> result(size);
    for (size_t i = 0; i < size; ++i) result[i] = static_cast<std::byte>((i * 7 + static_cast<size_t>(seed)) % 251);
    return result;
  }
  static std::vector<std::byte> read(const Buffer& buffer) {
    std::vector<std::byte> result(buffer.bytes());
    buffer.read(result);
    return result;
  }
  std::shared_ptr<Device> device_;
};

TEST_F(Uploads, ArriveAsTheyWereWhenTheyWereStarted) {
  std::vector<std::shared_ptr<Buffer>> buffers;
  const std::vector<size_t> sizes{0, 1, 8, 4096, 4097, 1 << 20, (1 << 20) + 3, 17 << 20};
  for (int round = 0; round < 5; ++round)
    for (const size_t size : sizes) {
      std::vector<std::byte> from = bytes(size, round);
      buffers.push_back(device_->upload(from));
      std::fill(from.begin(), from.end(), std::byte{0xFF});
    }
  for (size_t i = 0; i < buffers.size(); ++i)
    EXPECT_EQ(read(*buffers[i]), bytes(sizes[i % sizes.size()], static_cast<int>(i / sizes.size()))) << i;
}

// More than the pinned memory holds, while the device reads nothing.
TEST_F(Uploads, WaitWhereTooMuchIsOnItsWay) {
  std::vector<std::shared_ptr<Buffer>> buffers;
  for (int i = 0; i < 24; ++i) buffers.push_back(device_->upload(bytes(size_t{5} << 20, i)));
  for (int i = 0; i < 24; ++i) EXPECT_EQ(read(*buffers[static_cast<size_t>(i)]), bytes(size_t{5} << 20, i)) << i;
}

TEST_F(Uploads, DoNotWaitForTheDevice) {
  read(*device_->upload(bytes(100, 0)));
  const int64_t synchronizations = count("synchronizations"), pinned = count("pinned");
  std::vector<std::shared_ptr<Buffer>> buffers;
  for (int i = 0; i < 50; ++i) buffers.push_back(device_->upload(bytes(100, i)));
  EXPECT_EQ(count("synchronizations"), synchronizations);
  for (int i = 0; i < 50; ++i) EXPECT_EQ(read(*buffers[static_cast<size_t>(i)]), bytes(100, i));
  // What the device has read is used again.
  const int64_t before = count("pinned");
  EXPECT_LE(before - pinned, 50);
  for (int i = 0; i < 50; ++i) read(*device_->upload(bytes(100, i)));
  EXPECT_EQ(count("pinned"), before);
}

TEST_F(Uploads, OfSeveralThreadsDoNotMix) {
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      for (int i = 0; i < 50; ++i) {
        const std::vector<std::byte> sent = bytes(1000 + static_cast<size_t>(t), t * 50 + i);
        EXPECT_EQ(read(*device_->upload(sent)), sent);
      }
    });
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace transom
