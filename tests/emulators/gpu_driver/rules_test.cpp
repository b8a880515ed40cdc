// SPDX-License-Identifier: Apache-2.0
// The rules that the emulated CUDA driver keeps a caller to, through its C interface. HIP's is made of the same source.
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "emulated_driver.h"

namespace {

TEST_F(EmulatedDriver, AThreadWithoutAContextIsRefused) {
  int status = 0;
  std::thread([&] {
    void* memory = nullptr;
    status = call("cuMemAlloc_v2", &memory, size_t{16});
  }).join();
  EXPECT_EQ(status, 201);
}

TEST_F(EmulatedDriver, AllocationsBeginAtMultiplesOf256) {
  std::vector<void*> all;
  for (size_t bytes = 1; bytes <= size_t{1} << 23; bytes = bytes * 3 + 1) {
    void* memory = nullptr;
    ASSERT_EQ(call("cuMemAlloc_v2", &memory, bytes), 0);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(memory) % 256, 0u) << bytes;
    all.push_back(memory);
  }
  for (void* memory : all) EXPECT_EQ(call("cuMemFree_v2", memory), 0);
}

TEST_F(EmulatedDriver, CopiesStayInsideOfAnAllocation) {
  char host[2048] = {};
  EXPECT_EQ(call("cuMemcpyHtoDAsync_v2", memory_, static_cast<const void*>(host), size_t{1025}, stream_), 1);
  EXPECT_EQ(call("cuMemcpyHtoDAsync_v2", static_cast<void*>(host), static_cast<const void*>(host), size_t{8}, stream_),
            1);
  EXPECT_EQ(call("cuMemFree_v2", static_cast<void*>(host)), 1);
}

TEST_F(EmulatedDriver, ACopyIsDoneWhenSomebodyWaitsAndNotBefore) {
  std::vector<char> sent(1024, 5), back(1024, 0);
  ASSERT_EQ(call("cuMemcpyHtoDAsync_v2", memory_, static_cast<const void*>(sent.data()), size_t{1024}, stream_), 0);
  ASSERT_EQ(call("cuMemcpyDtoHAsync_v2", static_cast<void*>(back.data()), memory_, size_t{1024}, stream_), 0);
  EXPECT_EQ(back[0], 0) << "a caller that does not wait must not see the result";
  ASSERT_EQ(call("cuStreamSynchronize", stream_), 0);
  EXPECT_EQ(back, sent);
}

TEST_F(EmulatedDriver, WaitingWhileRecordingEndsTheRecording) {
  void* graph = nullptr;
  ASSERT_EQ(call("cuStreamBeginCapture_v2", stream_, 1), 0);
  EXPECT_EQ(call("cuStreamSynchronize", stream_), 900);
  EXPECT_EQ(call("cuStreamEndCapture", stream_, &graph), 901);
  EXPECT_EQ(graph, nullptr);
  EXPECT_EQ(call("cuStreamEndCapture", stream_, &graph), 903);
}

TEST_F(EmulatedDriver, RecordedCopiesRunAtEachReplay) {
  std::vector<char> sent(1024, 1), back(1024, 0);
  void *graph = nullptr, *executable = nullptr;
  ASSERT_EQ(call("cuStreamBeginCapture_v2", stream_, 1), 0);
  ASSERT_EQ(call("cuMemcpyHtoDAsync_v2", memory_, static_cast<const void*>(sent.data()), size_t{1024}, stream_), 0);
  ASSERT_EQ(call("cuMemcpyDtoHAsync_v2", static_cast<void*>(back.data()), memory_, size_t{1024}, stream_), 0);
  ASSERT_EQ(call("cuStreamEndCapture", stream_, &graph), 0);
  ASSERT_EQ(call("cuGraphInstantiateWithFlags", &executable, graph, 0ull), 0);
  ASSERT_EQ(call("cuStreamSynchronize", stream_), 0);
  EXPECT_EQ(back[0], 0) << "what is recorded is not run";
  for (const char value : {3, 4}) {
    std::fill(sent.begin(), sent.end(), value);
    ASSERT_EQ(call("cuGraphLaunch", executable, stream_), 0);
    ASSERT_EQ(call("cuStreamSynchronize", stream_), 0);
    EXPECT_EQ(back, sent);
  }
  EXPECT_EQ(call("cuGraphExecDestroy", executable), 0);
  EXPECT_EQ(call("cuGraphDestroy", graph), 0);
  EXPECT_EQ(call("cuGraphDestroy", graph), 400) << "a second time";
}

TEST_F(EmulatedDriver, EventsPassInTheOrderOfTheirStreams) {
  void *event = nullptr, *other = nullptr;
  ASSERT_EQ(call("cuEventCreate", &event, 0u), 0);
  ASSERT_EQ(call("cuStreamCreate", &other, 1u), 0);
  std::vector<char> sent(1024, 9), back(1024, 0);
  ASSERT_EQ(call("cuMemcpyHtoDAsync_v2", memory_, static_cast<const void*>(sent.data()), size_t{1024}, stream_), 0);
  ASSERT_EQ(call("cuEventRecord", event, stream_), 0);
  ASSERT_EQ(call("cuStreamWaitEvent", other, event, 0u), 0);
  ASSERT_EQ(call("cuMemcpyDtoHAsync_v2", static_cast<void*>(back.data()), memory_, size_t{1024}, other), 0);
  ASSERT_EQ(call("cuStreamSynchronize", other), 0);
  EXPECT_EQ(back, sent);
  EXPECT_EQ(call("cuEventQuery", event), 0);
  EXPECT_EQ(call("cuEventDestroy_v2", event), 0);
  EXPECT_EQ(call("cuEventDestroy_v2", event), 400);
  EXPECT_EQ(call("cuStreamDestroy_v2", other), 0);
}

TEST_F(EmulatedDriver, OnlyTextsOfTheDialectCompile) {
  void* program = nullptr;
  ASSERT_EQ(call("nvrtcCreateProgram", &program, "int x;", "a.cu", 0, static_cast<void*>(nullptr),
                 static_cast<void*>(nullptr)),
            0);
  const char* options[] = {"--use_fast_math"};
  EXPECT_EQ(call("nvrtcCompileProgram", program, 1, static_cast<const char* const*>(options)), 5);
  EXPECT_EQ(call("nvrtcCompileProgram", program, 0, static_cast<const char* const*>(nullptr)), 6);
  void* module = nullptr;
  EXPECT_EQ(call("cuModuleLoadData", &module, static_cast<const void*>("\177ELF")), 200);
  EXPECT_EQ(call("nvrtcDestroyProgram", &program), 0);
}

// Last, since the device stays lost for the whole process.
TEST_F(EmulatedDriver, ZMemoryThatAKernelReachesOutsideLosesTheDevice) {
  const std::string text =
      "#define KERNEL(n) x\n#define FUNCTION x\n#define GLOBAL\n#define LOCAL x\n#define THREAD x\n#define GROUP x\n"
      "#define GROUPS x\n#define BARRIER x\ntypedef i32 idx;\n"
      "KERNEL(64) transom_kernel(GLOBAL float* b0, i64 w0) {\nb0[THREAD] = (float)w0;\n}\n";
  void *program = nullptr, *module = nullptr, *function = nullptr;
  ASSERT_EQ(call("nvrtcCreateProgram", &program, text.c_str(), "a.cu", 0, static_cast<void*>(nullptr),
                 static_cast<void*>(nullptr)),
            0);
  ASSERT_EQ(call("nvrtcCompileProgram", program, 0, static_cast<const char* const*>(nullptr)), 0);
  size_t size = 0;
  ASSERT_EQ(call("nvrtcGetCUBINSize", program, &size), 0);
  std::vector<char> code(size);
  ASSERT_EQ(call("nvrtcGetCUBIN", program, code.data()), 0);
  ASSERT_EQ(call("cuModuleLoadData", &module, static_cast<const void*>(code.data())), 0);
  ASSERT_EQ(call("cuModuleGetFunction", &function, module, "transom_kernel"), 0);
  const auto launch = [&](void* address, unsigned threads) {
    int64_t number = 7;
    void* arguments[] = {&address, &number};
    return call("cuLaunchKernel", function, 1u, 1u, 1u, threads, 1u, 1u, 0u, stream_, static_cast<void**>(arguments),
                static_cast<void**>(nullptr));
  };
  EXPECT_EQ(launch(memory_, 32), 1) << "groups of another size than __launch_bounds__ says";
  EXPECT_EQ(launch(memory_, 64), 0);
  std::vector<float> back(64);
  ASSERT_EQ(call("cuMemcpyDtoHAsync_v2", static_cast<void*>(back.data()), memory_, size_t{256}, stream_), 0);
  ASSERT_EQ(call("cuStreamSynchronize", stream_), 0);
  EXPECT_EQ(back[63], 7.0f);
  EXPECT_EQ(launch(back.data(), 64), 0) << "faults show later";
  EXPECT_EQ(call("cuStreamSynchronize", stream_), 700);
  EXPECT_EQ(call("cuStreamSynchronize", stream_), 700) << "and stay";
  void* more = nullptr;
  EXPECT_EQ(call("cuMemAlloc_v2", &more, size_t{16}), 700);
  memory_ = nullptr;
}

}  // namespace
