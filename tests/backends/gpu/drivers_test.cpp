// SPDX-License-Identifier: Apache-2.0
// The plugins of NVIDIA and AMD on the emulated drivers of the build tree; with TRANSOM_TEST_GPU=1 on the machine's
// own.
#include <dlfcn.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "gpu_device.h"
#include "support/folders.h"

namespace transom::backend_test {
namespace {

// Tests skip a device that is not there, so that a plugin which does not even load would pass them.
TEST(GpuPlugins, Load) {
  for (const std::string name : {"cuda", "rocm", "opencl"}) {
    void* const library = dlopen((test::build_folder() + "/lib/transom/libtransom_" + name + ".so").c_str(), RTLD_NOW);
    EXPECT_NE(library, nullptr) << dlerror();
    if (library) dlclose(library);
  }
}

class GpuDrivers : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    if (!std::getenv("TRANSOM_TEST_GPU")) use_emulated_drivers();
    try {
      plugin_ = std::make_unique<Plugin>(GetParam());
    } catch (const std::exception& error) {
      GTEST_SKIP() << error.what();
    }
  }
  std::unique_ptr<Plugin> plugin_;
};

TEST_P(GpuDrivers, SayWhetherTheyAreEmulated) {
  transom_device_properties properties{.struct_size = sizeof(transom_device_properties)};
  transom_error error{};
  ASSERT_EQ(plugin_->table.device_describe(0, &properties, &error), TRANSOM_OK) << error.text;
  const bool emulated = std::string(properties.name).starts_with("emulated");
  EXPECT_EQ((properties.flags & TRANSOM_DEVICE_EMULATED) != 0, emulated);
  EXPECT_EQ(std::string(properties.architecture).substr(0, 3), std::string(GetParam()) == "cuda" ? "sm_" : "gfx");
}

TEST_P(GpuDrivers, RunAGraphOfSeveralKernels) {
  Graph graph;
  const Tensor x = numbers(TRANSOM_FLOAT32, {5, 40}), w = numbers(TRANSOM_FLOAT32, {3, 40}, -1, 1, 2);
  const int a = graph.input(x), b = graph.input(w);
  const int product = graph.node("linear", {a, b}, TRANSOM_FLOAT32, {5, 3});
  graph.output(graph.node("neg", {product}, TRANSOM_FLOAT32, {5, 3}));
  Program program(*plugin_, graph);
  ASSERT_EQ(program.error, "");
  std::vector<double> expected;
  for (size_t i = 0; i < 5; ++i)
    for (size_t j = 0; j < 3; ++j) {
      double sum = 0;
      for (size_t k = 0; k < 40; ++k) sum -= x.values[i * 40 + k] * w.values[j * 40 + k];
      expected.push_back(sum);
    }
  EXPECT_LT(difference(program.run({x, w})[0], expected), 1e-5);
  EXPECT_LT(difference(program.run({x, w})[0], expected), 1e-5) << "again";
}

TEST_P(GpuDrivers, ReplayWhatWasRecorded) {
  const transom_plugin& table = plugin_->table;
  transom_error error{};
  Graph graph;
  const int a = graph.input(TRANSOM_FLOAT32, {4});
  graph.output(graph.node("neg", {a}, TRANSOM_FLOAT32, {4}));
  transom_executable* executable = nullptr;
  ASSERT_EQ(table.compile(plugin_->device, graph.view(), &executable, &error), TRANSOM_OK) << error.text;
  transom_binding in{}, out{};
  ASSERT_EQ(table.buffer_allocate(plugin_->device, 16, &in.buffer, &error), TRANSOM_OK);
  ASSERT_EQ(table.buffer_allocate(plugin_->device, 16, &out.buffer, &error), TRANSOM_OK);
  const transom_launch launch = {sizeof(transom_launch), plugin_->stream, &in, 1, &out, 1, {nullptr, 0}};
  transom_capture* capture = nullptr;
  ASSERT_EQ(table.capture_begin(plugin_->stream, &error), TRANSOM_OK) << error.text;
  ASSERT_EQ(table.run(executable, &launch, &error), TRANSOM_OK) << error.text;
  ASSERT_EQ(table.capture_end(plugin_->stream, &capture, &error), TRANSOM_OK) << error.text;
  for (const float value : {1.0f, 2.5f}) {
    const float sent[4] = {value, value, value, value};
    float back[4] = {};
    ASSERT_EQ(table.copy_to_device(plugin_->stream, sent, in, 16, &error), TRANSOM_OK);
    ASSERT_EQ(table.capture_replay(capture, plugin_->stream, &error), TRANSOM_OK) << error.text;
    ASSERT_EQ(table.copy_to_host(plugin_->stream, out, back, 16, &error), TRANSOM_OK);
    ASSERT_EQ(table.stream_synchronize(plugin_->stream, &error), TRANSOM_OK);
    EXPECT_EQ(back[3], -value);
  }
  table.capture_destroy(capture);
  table.executable_destroy(executable);
  table.buffer_free(in.buffer);
  table.buffer_free(out.buffer);
}

TEST_P(GpuDrivers, CompileEachKernelOnceForAllWhoAsk) {
  const auto kernels = [&] { return reported(*plugin_, "kernels_compiled") + reported(*plugin_, "kernels_read"); };
  Graph graph;
  int value = graph.input(TRANSOM_FLOAT32, {6});
  for (const char* op : {"floor", "abs", "sqrt", "abs"}) value = graph.node(op, {value}, TRANSOM_FLOAT32, {6});
  graph.output(value);
  const uint64_t before = kernels();
  std::vector<std::thread> threads;
  std::vector<std::string> errors(4);
  // Each with a graph of its own, since a graph makes what the device sees of it when it is asked.
  for (std::string& error : errors)
    threads.emplace_back([this, &error, own = graph] { error = Program(*plugin_, own).error; });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(errors, std::vector<std::string>(4));
  EXPECT_EQ(kernels() - before, 3u);
}

TEST_P(GpuDrivers, WorkThoughAnotherLibraryChoseAContext) {
  if (std::string(GetParam()) != "cuda" || std::getenv("TRANSOM_TEST_GPU")) GTEST_SKIP() << "of emulated CUDA alone";
  void* driver = dlopen(std::getenv("TRANSOM_CUDA_LIBRARY"), RTLD_NOW | RTLD_LOCAL);
  ASSERT_NE(driver, nullptr);
  const auto set = reinterpret_cast<int (*)(void*)>(dlsym(driver, "cuCtxSetCurrent"));
  transom_error error{};
  transom_buffer* buffer = nullptr;
  ASSERT_EQ(set(nullptr), 0);
  ASSERT_EQ(plugin_->table.buffer_allocate(plugin_->device, 3 << 20, &buffer, &error), TRANSOM_OK) << error.text;
  plugin_->table.buffer_free(buffer);
  dlclose(driver);
}

// Allocates until the device is lost, and closes all that is open. Ends the process: the device stays lost.
void lose_and_close(std::unique_ptr<Plugin> plugin, const char* variable, uint64_t calls) {
  void* driver = dlopen(std::getenv(variable), RTLD_NOW | RTLD_LOCAL);
  const auto fault = reinterpret_cast<void (*)(uint64_t)>(dlsym(driver, "transomEmulatedFault"));
  if (!fault) std::exit(2);
  std::vector<transom_buffer*> buffers(1);
  transom_error error{};
  // Work that nobody has waited for: what is freed meanwhile would wait for it.
  const int64_t sent = 7;
  if (plugin->table.buffer_allocate(plugin->device, 64, &buffers[0], &error) != TRANSOM_OK ||
      plugin->table.copy_to_device(plugin->stream, &sent, {buffers[0], 0}, sizeof sent, &error) != TRANSOM_OK)
    std::exit(5);
  fault(calls);
  transom_status status = TRANSOM_OK;
  for (size_t bytes = 1; status == TRANSOM_OK && bytes < 10000; ++bytes) {
    transom_buffer* buffer = nullptr;
    status = plugin->table.buffer_allocate(plugin->device, bytes * 1024, &buffer, &error);
    if (status == TRANSOM_OK) buffers.push_back(buffer);
  }
  if (status != TRANSOM_DEVICE_LOST || buffers.size() < 2) std::exit(3);
  for (transom_buffer* buffer : buffers) plugin->table.buffer_free(buffer);
  if (plugin->table.stream_synchronize(plugin->stream, &error) != TRANSOM_DEVICE_LOST) std::exit(4);
  plugin.reset();
  std::exit(0);
}

TEST_P(GpuDrivers, ALostDeviceIsSaidOnceMoreAtEachCallAndClosesQuietly) {
  if (std::getenv("TRANSOM_TEST_GPU")) GTEST_SKIP() << "of emulated devices alone";
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const char* variable = std::string(GetParam()) == "cuda" ? "TRANSOM_CUDA_LIBRARY" : "TRANSOM_HIP_LIBRARY";
  EXPECT_EXIT(lose_and_close(std::move(plugin_), variable, 20), testing::ExitedWithCode(0), "");
}

// Frees memory whose work is queued while a call of the driver fails, whichever it is, and goes on.
TEST_P(GpuDrivers, AFailureOfOneCallIsNoLostDevice) {
  if (std::getenv("TRANSOM_TEST_GPU")) GTEST_SKIP() << "of emulated devices alone";
  void* driver = dlopen(std::getenv(std::string(GetParam()) == "cuda" ? "TRANSOM_CUDA_LIBRARY" : "TRANSOM_HIP_LIBRARY"),
                        RTLD_NOW | RTLD_LOCAL);
  const auto fail_once = reinterpret_cast<void (*)(uint64_t, int)>(dlsym(driver, "transomEmulatedFailure"));
  ASSERT_NE(fail_once, nullptr);
  const transom_plugin& table = plugin_->table;
  constexpr size_t kBytes = 1 << 20;
  const std::vector<uint8_t> ones(kBytes, 1), twos(kBytes, 2);
  std::vector<uint8_t> back(kBytes, 0);
  transom_error error{};
  transom_buffer* kept = nullptr;
  ASSERT_EQ(table.buffer_allocate(plugin_->device, kBytes, &kept, &error), TRANSOM_OK);
  for (const int status : {2, 701, 400, 1})  // out of memory, of resources; an invalid handle, an invalid value
    for (uint64_t calls = 1; calls <= 6; ++calls) {
      transom_buffer *passing = nullptr, *next = nullptr;
      ASSERT_EQ(table.buffer_allocate(plugin_->device, kBytes, &passing, &error), TRANSOM_OK) << error.text;
      ASSERT_EQ(table.copy_to_device(plugin_->stream, ones.data(), {passing, 0}, kBytes, &error), TRANSOM_OK);
      ASSERT_EQ(table.copy_on_device(plugin_->stream, {passing, 0}, {kept, 0}, kBytes, &error), TRANSOM_OK);
      fail_once(calls, status);
      table.buffer_free(passing);
      // The failure may show here, and only once.
      const transom_status first = table.buffer_allocate(plugin_->device, kBytes, &next, &error);
      ASSERT_NE(first, TRANSOM_DEVICE_LOST) << status << " at call " << calls << ": " << error.text;
      fail_once(0, 0);
      if (first != TRANSOM_OK) {
        ASSERT_EQ(table.buffer_allocate(plugin_->device, kBytes, &next, &error), TRANSOM_OK) << error.text;
      }
      transom_stream* other = nullptr;
      ASSERT_EQ(table.stream_create(plugin_->device, &other, &error), TRANSOM_OK);
      ASSERT_EQ(table.copy_to_device(other, twos.data(), {next, 0}, kBytes, &error), TRANSOM_OK);
      ASSERT_EQ(table.stream_synchronize(other, &error), TRANSOM_OK);
      ASSERT_EQ(table.copy_to_host(plugin_->stream, {kept, 0}, back.data(), kBytes, &error), TRANSOM_OK);
      ASSERT_EQ(table.stream_synchronize(plugin_->stream, &error), TRANSOM_OK) << error.text;
      ASSERT_EQ(back, ones) << "the next owner wrote before the work was done; " << status << " at call " << calls;
      table.stream_destroy(other);
      table.buffer_free(next);
    }
  table.buffer_free(kept);
  dlclose(driver);
}

INSTANTIATE_TEST_SUITE_P(All, GpuDrivers, testing::Values("cuda", "rocm"), [](const auto& info) { return info.param; });

}  // namespace
}  // namespace transom::backend_test
