// SPDX-License-Identifier: Apache-2.0
// What is made of a frozen buffer is kept with it, but not without end.
#include <gtest/gtest.h>

#include "runtime/device/device.h"

namespace transom {
namespace {

class DerivedBuffers : public testing::Test {
 protected:
  std::shared_ptr<Buffer> made_of(uint64_t key, size_t bytes) {
    return source_->derived({key}, [&] {
      ++made_;
      auto buffer = device_->allocate(bytes);
      alive_.push_back(buffer);
      return buffer;
    });
  }
  size_t living() const {
    size_t count = 0;
    for (const std::weak_ptr<Buffer>& each : alive_) count += !each.expired();
    return count;
  }
  const std::shared_ptr<Device> device_ = Device::open("cpu");
  const std::shared_ptr<Buffer> source_ = device_->allocate(4096);
  std::vector<std::weak_ptr<Buffer>> alive_;
  int made_ = 0;
};

TEST_F(DerivedBuffers, AreMadeOnceForAllWhoAsk) {
  const auto first = made_of(1, 64), second = made_of(2, 1000);
  EXPECT_EQ(made_of(1, 64), first);
  EXPECT_EQ(made_of(2, 1000), second);
  EXPECT_EQ(made_, 2);
}

TEST_F(DerivedBuffers, OfManyShapesAreLetGoOf) {
  for (uint64_t key = 0; key < 200; ++key) EXPECT_EQ(made_of(key, 64 + key)->bytes(), 64 + key);
  EXPECT_GE(living(), 8u);
  EXPECT_LE(living(), 16u);
  made_ = 0;
  EXPECT_EQ(made_of(199, 263)->bytes(), 263u);
  EXPECT_EQ(made_, 0);  // the last are there
  EXPECT_EQ(made_of(0, 64)->bytes(), 64u);
  EXPECT_EQ(made_, 1);  // the first are made again
}

TEST_F(DerivedBuffers, InUseLiveOn) {
  const auto held = made_of(0, 64);
  for (uint64_t key = 1; key < 50; ++key) made_of(key, 64);
  EXPECT_NE(made_of(0, 64), held);
  EXPECT_EQ(held->bytes(), 64u);
}

}  // namespace
}  // namespace transom
