// SPDX-License-Identifier: Apache-2.0
// The emulated OpenCL device through its C interface.
#pragma once

#include <dlfcn.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <cstdlib>
#include <vector>

class EmulatedOpencl : public testing::Test {
 protected:
  void SetUp() override {
    library_ = dlopen(OPENCL_LIBRARY, RTLD_NOW | RTLD_LOCAL);
    ASSERT_NE(library_, nullptr) << dlerror();
    if (std::system("tcc -v > /dev/null 2>&1") != 0) GTEST_SKIP() << "no compiler tcc: scripts/setup installs it";
  }
  template <typename Result = int, typename... Arguments>
  Result call(const char* name, Arguments... arguments) {
    return reinterpret_cast<Result (*)(Arguments...)>(dlsym(library_, name))(arguments...);
  }
  // The program of a text; its status of building.
  void* program_of(const char* text, int* built) {
    int status = 0;
    const char* texts[] = {text};
    void* program = call<void*>("clCreateProgramWithSource", nullptr, 1u, &texts[0], nullptr, &status);
    *built = call("clBuildProgram", program, 0u, nullptr, "", nullptr, nullptr);
    return program;
  }
  // Runs the kernel `k` of the text on numbers; gives the launch's status.
  int run(const char* text, std::vector<float>& numbers, size_t items) {
    return run_on(text, numbers.data(), numbers.size(), items);
  }
  int run_on(const char* text, const float* numbers, size_t size, size_t items) {
    int status = 0;
    void* program = program_of(text, &status);
    if (status != 0) return status;
    void* kernel = call<void*>("clCreateKernel", program, "k", &status);
    if (status != 0) return status;
    const auto count = static_cast<int64_t>(size);
    EXPECT_EQ(call("clSetKernelArgSVMPointer", kernel, 0u, static_cast<const void*>(numbers)), 0);
    EXPECT_EQ(call("clSetKernelArg", kernel, 1u, sizeof count, static_cast<const void*>(&count)), 0);
    const size_t global = items * 2;
    status = call("clEnqueueNDRangeKernel", nullptr, kernel, 1u, nullptr, &global, &items, 0u, nullptr, nullptr);
    call("clReleaseKernel", kernel);
    call("clReleaseProgram", program);
    return status;
  }

  void* library_ = nullptr;
};
