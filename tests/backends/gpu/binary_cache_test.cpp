// SPDX-License-Identifier: Apache-2.0
#include "gpu/device/binary_cache.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <fstream>
#include <string>

namespace transom::gpu {
namespace {

namespace fs = std::filesystem;

class GpuBinaryCache : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = (fs::temp_directory_path() / "transom-gpu-cache-XXXXXX").string();
    ASSERT_NE(::mkdtemp(name.data()), nullptr);
    folder_ = name;
  }
  void TearDown() override { fs::remove_all(folder_); }

  static std::string contents(const fs::path& path) {
    std::ifstream file(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  static void replace(const fs::path& path, const std::string& bytes) {
    std::ofstream(path, std::ios::binary | std::ios::trunc) << bytes;
  }
  fs::path folder_;
};

TEST_F(GpuBinaryCache, TwoAskersGetWhatIsTheirs) {
  const BinaryCache cache(folder_ / "gpu");
  EXPECT_FALSE(cache.read("chip a", "text"));
  cache.write("chip a", "text", "code of a");
  cache.write("chip b", "text", "code of b");
  cache.write("chip a", "other text", "other code");
  EXPECT_EQ(cache.read("chip a", "text"), "code of a");
  EXPECT_EQ(cache.read("chip b", "text"), "code of b");
  EXPECT_EQ(cache.read("chip a", "other text"), "other code");
  EXPECT_FALSE(cache.read("chip b", "other text"));
}

TEST_F(GpuBinaryCache, FilesThatAreCutOffOrChangedAreNotBelieved) {
  const BinaryCache cache(folder_);
  cache.write("chip", "text", "some code");
  const fs::path path = cache.path_of("chip", "text");
  const std::string whole = contents(path);
  ASSERT_FALSE(whole.empty());
  for (size_t size = 0; size < whole.size(); ++size) {
    replace(path, whole.substr(0, size));
    EXPECT_FALSE(cache.read("chip", "text")) << size;
  }
  for (size_t i = 0; i < whole.size(); ++i) {
    std::string flipped = whole;
    flipped[i] = static_cast<char>(flipped[i] ^ 0x20);
    replace(path, flipped);
    EXPECT_FALSE(cache.read("chip", "text")) << i;
    EXPECT_FALSE(fs::exists(path)) << "what can only be wrong is removed";
  }
}

TEST_F(GpuBinaryCache, WhatOthersMayWriteIsNotRead) {
  const BinaryCache cache(folder_);
  cache.write("chip", "text", "code");
  ::chmod(cache.path_of("chip", "text").c_str(), 0666);
  EXPECT_FALSE(cache.read("chip", "text"));
  BinaryCache(fs::path()).write("chip", "text", "code");  // off
  EXPECT_FALSE(BinaryCache(fs::path()).read("chip", "text"));
}

}  // namespace
}  // namespace transom::gpu
