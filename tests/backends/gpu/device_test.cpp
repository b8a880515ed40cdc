// SPDX-License-Identifier: Apache-2.0
// Memory, streams and events of the GPU backend. What the interface promises in general is tried by
// `transom certify --level behaviour`.
#include <cstring>
#include <vector>

#include "gpu_device.h"

namespace transom::backend_test {
namespace {

class GpuDevice : public OnGpu {
 protected:
  transom_buffer* allocate(size_t bytes) {
    transom_buffer* buffer = nullptr;
    EXPECT_EQ(plugin_->table.buffer_allocate(plugin_->device, bytes, &buffer, &error_), TRANSOM_OK) << error_.text;
    return buffer;
  }
  transom_memory_statistics statistics() {
    transom_memory_statistics result{.struct_size = sizeof(transom_memory_statistics)};
    EXPECT_EQ(plugin_->table.memory_statistics(plugin_->device, &result, &error_), TRANSOM_OK);
    return result;
  }
  transom_error error_{};
};

TEST_F(GpuDevice, CopiesWithinABufferMayOverlap) {
  std::vector<uint8_t> sent(1000), back(1000);
  for (size_t i = 0; i < sent.size(); ++i) sent[i] = static_cast<uint8_t>(i * 7);
  transom_buffer* buffer = allocate(1000);
  const transom_plugin& table = plugin_->table;
  ASSERT_EQ(table.copy_to_device(plugin_->stream, sent.data(), {buffer, 0}, 1000, &error_), TRANSOM_OK);
  ASSERT_EQ(table.copy_on_device(plugin_->stream, {buffer, 0}, {buffer, 100}, 900, &error_), TRANSOM_OK);
  ASSERT_EQ(table.copy_to_host(plugin_->stream, {buffer, 0}, back.data(), 1000, &error_), TRANSOM_OK);
  ASSERT_EQ(table.stream_synchronize(plugin_->stream, &error_), TRANSOM_OK);
  table.buffer_free(buffer);
  std::vector<uint8_t> expected = sent;
  std::memmove(expected.data() + 100, sent.data(), 900);
  EXPECT_EQ(back, expected);
}

// A buffer that is freed while a copy from it is queued is not given to the next one before the copy is done.
TEST_F(GpuDevice, FreedMemoryOutlivesTheWorkThatReadsIt) {
  const transom_plugin& table = plugin_->table;
  const size_t bytes = 1 << 20;
  const std::vector<uint8_t> ones(bytes, 1), twos(bytes, 2);
  std::vector<uint8_t> back(bytes, 0);
  transom_buffer* kept = allocate(bytes);
  for (int round = 0; round < 8; ++round) {
    transom_buffer* passing = allocate(bytes);
    ASSERT_EQ(table.copy_to_device(plugin_->stream, ones.data(), {passing, 0}, bytes, &error_), TRANSOM_OK);
    ASSERT_EQ(table.copy_on_device(plugin_->stream, {passing, 0}, {kept, 0}, bytes, &error_), TRANSOM_OK);
    table.buffer_free(passing);
    transom_stream* other = nullptr;
    ASSERT_EQ(table.stream_create(plugin_->device, &other, &error_), TRANSOM_OK);
    transom_buffer* next = allocate(bytes);
    ASSERT_EQ(table.copy_to_device(other, twos.data(), {next, 0}, bytes, &error_), TRANSOM_OK);
    ASSERT_EQ(table.stream_synchronize(other, &error_), TRANSOM_OK);
    ASSERT_EQ(table.copy_to_host(plugin_->stream, {kept, 0}, back.data(), bytes, &error_), TRANSOM_OK);
    ASSERT_EQ(table.stream_synchronize(plugin_->stream, &error_), TRANSOM_OK);
    EXPECT_EQ(back, ones);
    table.buffer_free(next);
    table.stream_destroy(other);
  }
  table.buffer_free(kept);
}

TEST_F(GpuDevice, MemoryIsCountedAndRefusedBeyondTheLimit) {
  const transom_memory_statistics before = statistics();
  transom_buffer* buffer = allocate(12345);
  EXPECT_EQ(statistics().bytes_in_use, before.bytes_in_use + 12345);
  EXPECT_EQ(statistics().handles, before.handles + 1);
  transom_buffer* too_large = nullptr;
  EXPECT_EQ(plugin_->table.buffer_allocate(plugin_->device, SIZE_MAX - 5, &too_large, &error_), TRANSOM_OUT_OF_MEMORY);
  EXPECT_EQ(too_large, nullptr);
  EXPECT_NE(std::string(error_.text).find("out of device memory"), std::string::npos) << error_.text;
  plugin_->table.buffer_free(buffer);
  EXPECT_EQ(statistics().bytes_in_use, before.bytes_in_use);
}

TEST_F(GpuDevice, AStreamWaitsForAnEventOfAnother) {
  const transom_plugin& table = plugin_->table;
  transom_stream* other = nullptr;
  transom_event* event = nullptr;
  ASSERT_EQ(table.stream_create(plugin_->device, &other, &error_), TRANSOM_OK);
  ASSERT_EQ(table.event_create(plugin_->device, &event, &error_), TRANSOM_OK);
  int32_t done = 0;
  ASSERT_EQ(table.event_query(event, &done, &error_), TRANSOM_OK);
  EXPECT_EQ(done, 1) << "an event that was never recorded has come to pass";
  std::vector<uint8_t> sent(1 << 20, 7), back(1 << 20, 0);
  transom_buffer* buffer = allocate(sent.size());
  ASSERT_EQ(table.copy_to_device(plugin_->stream, sent.data(), {buffer, 0}, sent.size(), &error_), TRANSOM_OK);
  ASSERT_EQ(table.event_record(event, plugin_->stream, &error_), TRANSOM_OK);
  ASSERT_EQ(table.event_wait(event, other, &error_), TRANSOM_OK);
  ASSERT_EQ(table.copy_to_host(other, {buffer, 0}, back.data(), back.size(), &error_), TRANSOM_OK);
  ASSERT_EQ(table.stream_synchronize(other, &error_), TRANSOM_OK);
  EXPECT_EQ(back, sent);
  table.buffer_free(buffer);
  table.event_destroy(event);
  table.stream_destroy(other);
}

TEST_F(GpuDevice, WhatBreaksTheInterfaceIsRefusedInOneLine) {
  Graph graph;
  const int x = graph.input(TRANSOM_FLOAT32, {4});
  graph.output(graph.node("concatenate", {x}, TRANSOM_FLOAT32, {4}, {{"axis", 9}}));
  EXPECT_NE(Program(*plugin_, graph).error, "");
  Graph missing;
  missing.output(missing.node("permute", {missing.input(TRANSOM_FLOAT32, {4, 2})}, TRANSOM_FLOAT32, {2, 4}));
  EXPECT_NE(Program(*plugin_, missing).error.find("permutation"), std::string::npos);
}

}  // namespace
}  // namespace transom::backend_test
