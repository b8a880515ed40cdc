// SPDX-License-Identifier: Apache-2.0
// What the emulated OpenCL device finds where it looks at every access, and that correct kernels pass.
#include "emulated_opencl.h"

#include <string>

namespace {

class CheckedOpencl : public EmulatedOpencl {
 protected:
  static constexpr size_t kCount = 512, kItems = 256;

  void SetUp() override {
    EmulatedOpencl::SetUp();
    if (std::system("echo 'int x;' | cc -fsanitize=thread -xc -c -o /dev/null - 2> /dev/null") != 0)
      GTEST_SKIP() << "no compiler cc that writes checks";
    setenv("TRANSOM_EMULATED_OPENCL_CHECK", "1", 1);
  }
  void TearDown() override { unsetenv("TRANSOM_EMULATED_OPENCL_CHECK"); }

  // What is said of the kernel with this body, over 512 numbers `x` in two groups of 256; empty if it passes.
  std::string finding(const std::string& body) {
    auto* numbers = call<float*>("clSVMAlloc", nullptr, uint64_t{1}, kCount * sizeof(float), 128u);
    for (size_t i = 0; i < kCount; ++i) numbers[i] = static_cast<float>(i);
    const std::string text =
        "__kernel void k(__global float* x, long n) {\n__local float kept[256];\n"
        "__local unsigned char bytes[256];\n"
        "const int i = get_local_id(0), g = get_group_id(0);\n" +
        body + "}\n";
    testing::internal::CaptureStderr();
    const int status = run_on(text.c_str(), numbers, kCount, kItems);
    std::string said = testing::internal::GetCapturedStderr();
    call<void>("clSVMFree", nullptr, static_cast<void*>(numbers));
    EXPECT_EQ(status, said.empty() ? 0 : -5) << said;
    return said;
  }
  void expect(const std::string& words, const std::string& body) {
    const std::string said = finding(body);
    EXPECT_NE(said.find(words), std::string::npos) << body << ": " << said;
  }
};

TEST_F(CheckedOpencl, CorrectKernelsPass) {
  EXPECT_EQ(finding("kept[i] = x[g * 256 + i]; barrier(1); x[g * 256 + i] = kept[255 - i];"), "");
  EXPECT_EQ(finding("kept[i] = x[g * 256 + i]; barrier(1); for (int s = 128; s > 0; s /= 2) {"
                    "if (i < s) kept[i] += kept[i + s]; barrier(1); } if (i == 0) x[g * 256] = kept[0];"),
            "");
  EXPECT_EQ(finding("float y = x[0]; barrier(1); if (y == 1e9f) x[i] = y;"), "") << "all read";
}

TEST_F(CheckedOpencl, RacesWithinAGroup) {
  // Which of the two comes second is the emulator's affair.
  expect("a race: one ", "kept[i] = x[g * 256 + i]; x[g * 256 + i] = kept[i ^ 1];");
  expect("a race: two write", "kept[i / 2] = 1; barrier(1); x[g * 256 + i] = kept[i];");
  expect("a race: one ",
         "kept[i] = 0; barrier(1); float y = kept[255 - i]; kept[i] = y + i; barrier(1); x[g * 256 + i] = kept[i];");
  expect("a race: one ",
         "bytes[i] = i; barrier(1); bytes[i] = bytes[(i + 1) % 256]; barrier(1); x[g * 256 + i] = bytes[i];");
  EXPECT_EQ(finding("bytes[i] = i; barrier(1); x[g * 256 + i] = bytes[255 - i];"), "") << "neighbours in a word";
}

TEST_F(CheckedOpencl, RacesBetweenGroupsWhereNoBarrierHelps) {
  expect("a race: two write", "x[i] = g;");
  expect("a race: one writes what another reads", "float y = x[i]; barrier(1); if (g == 1) x[i] = y;");
  expect("a race: one writes what another reads",
         "float y = x[0]; barrier(1); y += x[0]; barrier(1); if (g == 1 && i == 0) x[0] = y;");
  expect("a race: one reads what another writes", "if (g == 0) x[i] = i; else x[256 + i] = x[i];");
}

TEST_F(CheckedOpencl, AccessesOutsideOfMemory) {
  expect("a write of 4 bytes outside of memory: 2048 bytes from the begin of memory of 2048",
         "x[g * 256 + i + 1] = 0;");
  expect("a read of 4 bytes outside of memory", "float y = x[g * 256 + i - 1]; barrier(1); x[g * 256 + i] = y;");
  expect("the index 256 is outside of its array", "kept[i + 1] = 0;");
}

}  // namespace
