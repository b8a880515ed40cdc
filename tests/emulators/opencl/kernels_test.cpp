// SPDX-License-Identifier: Apache-2.0
// The emulated OpenCL device, through its C interface: work-items that meet at barriers, texts that do not compile,
// launches that break off.
#include "emulated_opencl.h"

#include <string>
#include <vector>

namespace {

TEST_F(EmulatedOpencl, WorkItemsSeeWhatOthersWroteBeforeTheBarrier) {
  std::vector<float> numbers(512);
  for (size_t i = 0; i < numbers.size(); ++i) numbers[i] = static_cast<float>(i);
  const char* const reversed = R"(__kernel void k(__global float* x, long n) {
    __local float kept[256];
    const int at = get_group_id(0) * 256;
    kept[get_local_id(0)] = x[at + get_local_id(0)];
    barrier(CLK_LOCAL_MEM_FENCE);
    x[at + get_local_id(0)] = kept[255 - get_local_id(0)];
  })";
  ASSERT_EQ(run(reversed, numbers, 256), 0);
  for (size_t i = 0; i < numbers.size(); ++i) ASSERT_EQ(numbers[i], static_cast<float>(i / 256 * 256 + 255 - i % 256));
}

TEST_F(EmulatedOpencl, NumbersOfBothWidthsAreComputedAsC) {
  std::vector<float> numbers = {2.0f, -0.0f};
  const char* const text = R"(__kernel void k(__global float* x, long n) {
    if (get_local_id(0) == 0 && get_group_id(0) == 0) {
      x[0] = (float)sqrt((double)x[0]) - sqrt(x[0]) + fma(x[0], 3.0f, as_float(0x3F800000u));
      x[1] = -x[1] == 0.0f && as_uint(-x[1]) == 0u ? 1.0f : 0.0f;
    }
  })";
  ASSERT_EQ(run(text, numbers, 1), 0);
  EXPECT_EQ(numbers, (std::vector<float>{7.0f, 1.0f}));
}

TEST_F(EmulatedOpencl, ABarrierThatSomeDoNotReachIsAnError) {
  std::vector<float> numbers(4);
  const char* const text = R"(__kernel void k(__global float* x, long n) {
    if (get_local_id(0) > 0) barrier(CLK_LOCAL_MEM_FENCE);
  })";
  EXPECT_NE(run(text, numbers, 4), 0);
}

TEST_F(EmulatedOpencl, AVectorAtAPlaceThatIsNoMultipleOfItsSizeIsAnError) {
  std::vector<float> numbers(16, 3.0f);
  const char* const aligned =
      "__kernel void k(__global float* x, long n) "
      "{ x[8] = *(__global float*)emulated_vector((ulong)x, 16); }";
  const char* const shifted =
      "__kernel void k(__global float* x, long n) "
      "{ x[8] = *(__global float*)emulated_vector((ulong)(x + 1), 16); }";
  EXPECT_EQ(run(aligned, numbers, 1), 0);
  EXPECT_EQ(run(shifted, numbers, 1), -5);
  EXPECT_EQ(run(aligned, numbers, 1), 0) << "the next launch is none of it";
}

TEST_F(EmulatedOpencl, KernelsTakeHundredsOfArguments) {
  std::vector<float> numbers(2, 0.0f);
  std::string text = "__kernel void k(__global float* x, long n";
  for (int i = 2; i < 400; ++i) text += ", long a" + std::to_string(i);
  ASSERT_EQ(run((text + ") { x[0] = (float)(n + a399); }").c_str(), numbers, 1), 0);
  EXPECT_EQ(numbers[0], 2.0f);
}

TEST_F(EmulatedOpencl, ATextThatDoesNotCompileIsRefusedWithTheCompilersWords) {
  int status = 0;
  void* program = program_of("__kernel void k(__global float* x) { x[0] = unknown; }", &status);
  EXPECT_EQ(status, -11);
  char log[1000] = "";
  EXPECT_EQ(call("clGetProgramBuildInfo", program, nullptr, 0x1183u, sizeof log, static_cast<void*>(log),
                 static_cast<size_t*>(nullptr)),
            0);
  EXPECT_NE(std::string(log).find("unknown"), std::string::npos) << log;
  call("clReleaseProgram", program);
}

}  // namespace
