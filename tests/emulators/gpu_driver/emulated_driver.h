// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <dlfcn.h>
#include <gtest/gtest.h>

// The emulated CUDA driver by its C interface, with a stream and 1024 bytes of memory.
class EmulatedDriver : public testing::Test {
 protected:
  void SetUp() override {
    library_ = dlopen(CUDA_LIBRARY, RTLD_NOW | RTLD_LOCAL);
    ASSERT_NE(library_, nullptr) << dlerror();
    constexpr int kNoDevice = 100;
    const int status = call("cuInit", 0u);
    if (status == kNoDevice) GTEST_SKIP() << "no OpenCL device carries out the work";
    ASSERT_EQ(status, 0);
    void* context = nullptr;
    ASSERT_EQ(call("cuDevicePrimaryCtxRetain", &context, 0), 0);
    ASSERT_EQ(call("cuCtxSetCurrent", context), 0);
    ASSERT_EQ(call("cuStreamCreate", &stream_, 1u), 0);
    ASSERT_EQ(call("cuMemAlloc_v2", &memory_, size_t{1024}), 0);
  }
  void TearDown() override {
    if (!memory_) return;
    EXPECT_EQ(call("cuMemFree_v2", memory_), 0);
    EXPECT_EQ(call("cuStreamDestroy_v2", stream_), 0);
  }
  template <typename... Arguments>
  int call(const char* name, Arguments... arguments) {
    return reinterpret_cast<int (*)(Arguments...)>(dlsym(library_, name))(arguments...);
  }

  void* library_ = nullptr;
  void* stream_ = nullptr;
  void* memory_ = nullptr;
};
