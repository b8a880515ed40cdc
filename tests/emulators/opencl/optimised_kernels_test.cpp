// SPDX-License-Identifier: Apache-2.0
// Kernels that the emulated OpenCL device compiles again since they run long, and those that it keeps on disk.
#include "emulated_opencl.h"

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

namespace {

// Long enough for the compiler that optimises to take over within the launch or after it.
constexpr const char* kLong = R"(__kernel void k(__global float* x, long n) {
  __local float kept[256];
  float sum = 0;
  for (int i = 0; i < 200; ++i) {
    kept[get_local_id(0)] = x[get_local_id(0)] * 0.1f + (float)i;
    barrier(CLK_LOCAL_MEM_FENCE);
    for (int k = 0; k < 1000; ++k) {
      sum += kept[(255 - get_local_id(0) + k) % 256] * 0.3f - sum * 0.7f;
      sum = sum - floor(sum);
    }
    sum += (float)sin((double)sum) + exp(-sum) + (float)pow((double)sum, 2.0);
    barrier(CLK_LOCAL_MEM_FENCE);
  }
  x[256 * (1 + get_group_id(0)) + get_local_id(0)] = sum;
})";

TEST_F(EmulatedOpencl, KernelsThatRunLongAreOptimisedAndKeepTheirBitsAndAreKeptWhereAFolderIsNamed) {
  std::string folder = (std::filesystem::temp_directory_path() / "emulated_cache_XXXXXX").string();
  ASSERT_NE(mkdtemp(folder.data()), nullptr);
  const auto files = [&](const char* ending) {
    std::vector<std::filesystem::path> found;
    for (const auto& entry : std::filesystem::directory_iterator(folder))
      if (entry.path().extension() == ending) found.push_back(entry.path());
    return found;
  };
  const auto results = [&] {
    std::vector<float> numbers(3 * 256, 0.7f);
    EXPECT_EQ(run(kLong, numbers, 256), 0);
    return numbers;
  };
  const std::vector<float> first = results();
  setenv("TRANSOM_EMULATED_OPENCL_CACHE", folder.c_str(), 1);
  EXPECT_EQ(results(), first);
  if (std::system("cc --version > /dev/null 2>&1") == 0) {
    EXPECT_EQ(files(".so").size(), 2u) << "by tcc, by cc";
  }
  EXPECT_EQ(results(), first) << "what was kept";
  // Two texts may have one name: who finds another's text compiles its own.
  for (const auto& path : files(".c")) std::ofstream(path) << "another text";
  for (const auto& path : files(".so")) std::ofstream(path) << "its library";
  EXPECT_EQ(results(), first);
  for (const auto& path : files(".c")) {
    std::ifstream file(path);
    EXPECT_NE(std::string(std::istreambuf_iterator<char>(file), {}), "another text");
  }
  unsetenv("TRANSOM_EMULATED_OPENCL_CACHE");
  std::filesystem::remove_all(folder);
}

}  // namespace
