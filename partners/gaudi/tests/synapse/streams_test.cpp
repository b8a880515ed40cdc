// SPDX-License-Identifier: Apache-2.0
// Order of work in streams, events, faults and the simulated clock.
#include <gtest/gtest.h>

#include <cstring>

#include "synapse/harness.h"
#include "synapse/params.h"

namespace synapse_tests {
namespace {

TEST(SynapseStreams, DeferredWorkRunsWhenSomebodyWaits) {
  EXPECT_TRUE(in_child({{"TRANSOM_SYNAPSE_DEFER", "1"}, {"TRANSOM_SYNAPSE_POISON", "1"}}, [] {
    Card card;
    uint64_t address = 0;
    EXPECT_EQ(SYN(synDeviceMalloc)(0, 64, 0, 0, &address), 0);
    char* host = nullptr;
    EXPECT_EQ(SYN(synHostMalloc)(0, 64, 0, reinterpret_cast<void**>(&host)), 0);
    std::memset(host, 1, 64);
    EXPECT_EQ(SYN(synMemsetD8Async)(address, 7, 64, card.stream()), 0);
    EXPECT_EQ(SYN(synMemCopyAsync)(card.stream(), address, 64, reinterpret_cast<uint64_t>(host), DRAM_TO_HOST), 0);
    EXPECT_EQ(host[0], 1);  // nobody has waited
    EXPECT_EQ(SYN(synStreamSynchronize)(card.stream()), 0);
    EXPECT_EQ(host[0], 7);
    EXPECT_EQ(SYN(synHostFree)(0, host, 0), 0);
    card.free(address);
  }));
}

TEST(SynapseStreams, EventsOrderStreams) {
  for (const char* deferred : {"0", "1"}) {
    EXPECT_TRUE(in_child({{"TRANSOM_SYNAPSE_DEFER", deferred}}, [] {
      Card card;
      synStreamHandle other = nullptr;
      EXPECT_EQ(SYN(synStreamCreateGeneric)(&other, 0, 0), 0);
      synEventHandle event = nullptr;
      EXPECT_EQ(SYN(synEventCreate)(&event, 0, 0), 0);
      EXPECT_EQ(SYN(synStreamWaitEvent)(other, event, 0), 0);  // never recorded: nothing to wait for
      EXPECT_EQ(SYN(synEventQuery)(event), 0);
      uint64_t a = 0, b = 0;
      EXPECT_EQ(SYN(synDeviceMalloc)(0, 1 << 20, 0, 0, &a), 0);
      EXPECT_EQ(SYN(synDeviceMalloc)(0, 1 << 20, 0, 0, &b), 0);
      for (int round = 0; round < 20; ++round) {
        EXPECT_EQ(SYN(synMemsetD8Async)(a, static_cast<unsigned char>(round), 1 << 20, card.stream()), 0);
        EXPECT_EQ(SYN(synEventRecord)(event, card.stream()), 0);
        EXPECT_EQ(SYN(synStreamWaitEvent)(other, event, 0), 0);
        EXPECT_EQ(SYN(synMemCopyAsync)(other, a, 1 << 20, b, DRAM_TO_DRAM), 0);
        EXPECT_EQ(SYN(synEventRecord)(event, other), 0);
        EXPECT_EQ(SYN(synStreamWaitEvent)(card.stream(), event, 0), 0);
      }
      EXPECT_EQ(SYN(synEventSynchronize)(event), 0);
      const Value found = card.download(b, empty({1 << 20}, syn_type_int8));
      EXPECT_EQ(found.bytes.front(), 19);
      EXPECT_EQ(found.bytes.back(), 19);
      EXPECT_EQ(SYN(synDeviceSynchronize)(0), 0);
      card.free(a);
      card.free(b);
      EXPECT_EQ(SYN(synEventDestroy)(event), 0);
      EXPECT_EQ(SYN(synEventRecord)(event, other), synInvalidEventHandle);
      EXPECT_EQ(SYN(synStreamDestroy)(other), 0);
      EXPECT_EQ(SYN(synStreamSynchronize)(other), synInvalidArgument);
    }));
  }
}

TEST(SynapseStreams, AccessesWithoutOrderAreFound) {
  const std::string log = scratch("races.log");
  EXPECT_TRUE(in_child({{"TRANSOM_SYNAPSE_LOG", log}}, [] {
    Card card;
    synStreamHandle other = nullptr;
    EXPECT_EQ(SYN(synStreamCreateGeneric)(&other, 0, 0), 0);
    uint64_t a = 0, b = 0;
    EXPECT_EQ(SYN(synDeviceMalloc)(0, 256, 0, 0, &a), 0);
    EXPECT_EQ(SYN(synDeviceMalloc)(0, 256, 0, 0, &b), 0);
    EXPECT_EQ(SYN(synMemsetD8Async)(a, 1, 256, card.stream()), 0);
    EXPECT_EQ(SYN(synMemCopyAsync)(other, a, 256, b, DRAM_TO_DRAM), synResourceBadUsage);
    EXPECT_EQ(SYN(synDeviceFree)(0, a, 0), synDeviceFreeFailed);  // still used, as far as the host knows
    EXPECT_EQ(SYN(synStreamSynchronize)(card.stream()), 0);
    EXPECT_EQ(SYN(synMemCopyAsync)(other, a, 256, b, DRAM_TO_DRAM), 0);
    EXPECT_EQ(SYN(synStreamSynchronize)(other), 0);
    card.free(a);
    card.free(b);
    EXPECT_EQ(SYN(synStreamDestroy)(other), 0);
  }));
  EXPECT_EQ(count_of(read_file(log), " RULE stream-order"), 1) << read_file(log);
  EXPECT_EQ(count_of(read_file(log), " RULE in-use"), 1) << read_file(log);
}

TEST(SynapseFaults, HappenAtTheCallThatWasAskedFor) {
  EXPECT_TRUE(in_child({{"TRANSOM_SYNAPSE_FAULT", "synDeviceMalloc:3:out_of_memory,synGraphCompile:1:failed"}}, [] {
    Card card;
    uint64_t address[4] = {};
    for (int i = 0; i < 4; ++i)
      EXPECT_EQ(SYN(synDeviceMalloc)(0, 64, 0, 0, &address[i]), i == 2 ? int{synOutOfDeviceMemory} : 0);
    for (const uint64_t place : address) card.free(place);
    const Value x = value({4}, {1, 2, 3, 4});
    Value y = empty({4});
    EXPECT_EQ(card.node("neg_fwd_f32", {&x}, {&y}), synFail);
    EXPECT_EQ(card.node("neg_fwd_f32", {&x}, {&y}), 0);
  }));
  EXPECT_TRUE(in_child({{"TRANSOM_SYNAPSE_FAULT", "synMemsetD8Async:2:device_lost"}}, [] {
    EXPECT_EQ(SYN(synInitialize)(), 0);
    synDeviceId device;
    EXPECT_EQ(SYN(synDeviceAcquire)(&device, nullptr), 0);
    synStreamHandle stream = nullptr;
    EXPECT_EQ(SYN(synStreamCreateGeneric)(&stream, 0, 0), 0);
    uint64_t address = 0;
    EXPECT_EQ(SYN(synDeviceMalloc)(0, 64, 0, 0, &address), 0);
    EXPECT_EQ(SYN(synMemsetD8Async)(address, 1, 64, stream), 0);
    EXPECT_EQ(SYN(synMemsetD8Async)(address, 1, 64, stream), synDeviceReset);
    EXPECT_EQ(SYN(synStreamSynchronize)(stream), synDeviceReset);
    uint64_t other = 0;
    EXPECT_EQ(SYN(synDeviceMalloc)(0, 64, 0, 0, &other), synDeviceReset);
    EXPECT_EQ(SYN(synStreamDestroy)(stream), 0);
    EXPECT_EQ(SYN(synDeviceRelease)(0), 0);
    EXPECT_EQ(SYN(synDeviceAcquire)(&device, nullptr), 0);  // it works again
    EXPECT_EQ(SYN(synDeviceMalloc)(0, 64, 0, 0, &other), 0);
    EXPECT_EQ(SYN(synDeviceRelease)(0), 0);
  }));
  EXPECT_TRUE(
      in_child({{"TRANSOM_SYNAPSE_FAULT", "nonsense"}}, [] { EXPECT_EQ(SYN(synInitialize)(), synInvalidArgument); }));
}

TEST(SynapseClock, ReportsEngineTimesAndSaysThatItIsAnEmulator) {
  const std::string report = scratch("report.json");
  EXPECT_TRUE(in_child({{"TRANSOM_SYNAPSE_REPORT", report}, {"TRANSOM_SYNAPSE_GENERATION", "gaudi3"}}, [] {
    Card card;
    synEventHandle start = nullptr, end = nullptr, plain = nullptr;
    EXPECT_EQ(SYN(synEventCreate)(&start, 0, 1), 0);
    EXPECT_EQ(SYN(synEventCreate)(&end, 0, 1), 0);
    EXPECT_EQ(SYN(synEventCreate)(&plain, 0, 0), 0);
    EXPECT_EQ(SYN(synEventRecord)(start, card.stream()), 0);
    const Value a = value({256, 256}, some(65536), syn_type_bf16);
    Value c = empty({256, 256}, syn_type_bf16);
    ASSERT_EQ(card.node("gemm", {&a, &a}, {&c}), 0);
    EXPECT_EQ(SYN(synEventRecord)(end, card.stream()), 0);
    EXPECT_EQ(SYN(synEventSynchronize)(end), 0);
    uint64_t nanoseconds = 0;
    EXPECT_EQ(SYN(synEventElapsedTime)(&nanoseconds, start, end), 0);
    EXPECT_GT(nanoseconds, 2000u);  // four copies of 128 KiB at 64 GB/s
    EXPECT_EQ(SYN(synEventRecord)(plain, card.stream()), 0);
    EXPECT_EQ(SYN(synEventElapsedTime)(&nanoseconds, start, plain), synFailedToCollectTime);
    for (const synEventHandle event : {start, end, plain}) EXPECT_EQ(SYN(synEventDestroy)(event), 0);
  }));
  const std::string text = read_file(report);
  EXPECT_EQ(count_of(text, "\"emulated\": true"), 1) << text;
  EXPECT_EQ(count_of(text, "\"launches\": 1"), 1) << text;
  EXPECT_EQ(count_of(text, "\"rule_violations\": 1"), 1) << text;  // the time of the event without flag
}

}  // namespace
}  // namespace synapse_tests
