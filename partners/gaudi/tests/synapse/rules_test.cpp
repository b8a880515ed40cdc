// SPDX-License-Identifier: Apache-2.0
// Each documented rule: what keeps it works, what breaks it gives the documented status and a line in the log.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <cstring>

#include "synapse/harness.h"
#include "synapse/params.h"

namespace synapse_tests {
namespace {

using namespace synapse_emulator;

TEST(SynapseRules, LifeOfTheProcessAndTheDevice) {
  const std::string log = scratch("life.log");
  EXPECT_TRUE(in_child({{"TRANSOM_SYNAPSE_LOG", log}, {"TRANSOM_SYNAPSE_DEVICES", "2"}}, [] {
    uint32_t count = 0;
    EXPECT_EQ(SYN(synDeviceGetCount)(&count), synUninitialized);
    EXPECT_EQ(SYN(synInitialize)(), 0);
    EXPECT_EQ(SYN(synInitialize)(), synAlreadyInitialized);
    EXPECT_EQ(SYN(synDeviceGetCount)(&count), 0);
    EXPECT_EQ(count, 2u);
    synDeviceId device;
    EXPECT_EQ(SYN(synDeviceAcquireByModuleId)(&device, 2), synInvalidArgument);
    EXPECT_EQ(SYN(synDeviceAcquireByDeviceType)(&device, synDeviceGaudi), synNoDeviceFound);
    EXPECT_EQ(SYN(synDeviceAcquireByModuleId)(&device, 1), 0);
    EXPECT_EQ(SYN(synDeviceAcquire)(&device, nullptr), synDeviceAlreadyAcquired);
    uint64_t address = 0;
    EXPECT_EQ(SYN(synDeviceMalloc)(3, 64, 0, 0, &address), synInvalidArgument);
    EXPECT_EQ(SYN(synDeviceMalloc)(0, 64, 0, 0, &address), 0);
    EXPECT_EQ(SYN(synDeviceFree)(0, address + 128, 0), synInvalidArgument);
    EXPECT_EQ(SYN(synDeviceRelease)(0), 0);  // with an allocation left, which the log tells
    EXPECT_EQ(SYN(synDeviceRelease)(0), synInvalidArgument);
    EXPECT_EQ(SYN(synDestroy)(), 0);
  }));
  const std::string text = read_file(log);
  EXPECT_EQ(count_of(text, " RULE acquire-once"), 1) << text;
  EXPECT_EQ(count_of(text, " RULE release-order"), 1) << text;
  EXPECT_EQ(count_of(text, " RULE module-id"), 1) << text;
}

TEST(SynapseRules, CardsOfAServerAreHeldByOneProcess) {
  const std::string server = "test-" + std::to_string(getpid());
  int ready[2], done[2];
  ASSERT_EQ(pipe(ready), 0);
  ASSERT_EQ(pipe(done), 0);
  const Environment environment = {{"TRANSOM_SYNAPSE_SERVER", server}, {"TRANSOM_SYNAPSE_DEVICES", "2"}};
  const pid_t holder = fork();
  if (holder == 0) {
    for (const auto& [name, text] : environment) setenv(name.c_str(), text.c_str(), 1);
    synDeviceId device;
    SYN(synInitialize)();
    SYN(synDeviceAcquireByModuleId)(&device, 0);
    char byte = 1;
    EXPECT_EQ(write(ready[1], &byte, 1), 1);
    EXPECT_EQ(read(done[0], &byte, 1), 1);
    _exit(0);
  }
  char byte = 1;
  ASSERT_EQ(read(ready[0], &byte, 1), 1);
  EXPECT_TRUE(in_child(environment, [] {
    synDeviceId device;
    EXPECT_EQ(SYN(synInitialize)(), 0);
    EXPECT_EQ(SYN(synDeviceAcquireByModuleId)(&device, 0), synDeviceAlreadyAcquired);
    EXPECT_EQ(SYN(synDeviceAcquire)(&device, nullptr), 0);  // the other one
    char bus[32];
    EXPECT_EQ(SYN(synDeviceGetPCIBusId)(bus, sizeof bus, 0), 0);
    EXPECT_STREQ(bus, "0000:02:00.0");
  }));
  ASSERT_EQ(write(done[1], &byte, 1), 1);
}

TEST(SynapseRules, MemoryLimitOfTheGeneration) {
  for (const auto& [generation, bytes] : std::map<std::string, uint64_t>{
           {"gaudi", uint64_t{32} << 30}, {"gaudi2", uint64_t{96} << 30}, {"gaudi3", uint64_t{128} << 30}}) {
    const uint64_t size = bytes;
    EXPECT_TRUE(in_child({{"TRANSOM_SYNAPSE_GENERATION", generation}}, [size] {
      Card card;
      uint64_t free = 0, total = 0, first = 0, second = 0;
      EXPECT_EQ(SYN(synDeviceGetMemoryInfo)(0, &free, &total), 0);
      EXPECT_EQ(total, size);
      EXPECT_EQ(SYN(synDeviceMalloc)(0, size + 1, 0, 0, &first), synOutOfDeviceMemory);
      EXPECT_EQ(SYN(synDeviceMalloc)(0, size - (1 << 20), 0, 0, &first), 0);
      EXPECT_EQ(SYN(synDeviceMalloc)(0, 2 << 20, 0, 0, &second), synOutOfDeviceMemory);
      EXPECT_EQ(SYN(synDeviceFree)(0, first, 0), 0);
      EXPECT_EQ(SYN(synDeviceMalloc)(0, 2 << 20, 0, 0, &second), 0);
      EXPECT_EQ(SYN(synDeviceFree)(0, second, 0), 0);
      synDeviceAttribute which = 11;
      uint64_t alignment = 0;
      EXPECT_EQ(SYN(synDeviceGetAttribute)(&alignment, &which, 1, 0), 0);
      EXPECT_EQ(second % alignment, 0u);
    }));
  }
  EXPECT_TRUE(in_child({{"TRANSOM_SYNAPSE_MEMORY", "65536"}}, [] {
    Card card;
    uint64_t a = 0, b = 0;
    EXPECT_EQ(SYN(synDeviceMalloc)(0, 65536 - 128, 0, 0, &a), 0);
    EXPECT_EQ(SYN(synDeviceMalloc)(0, 129, 0, 0, &b), synOutOfDeviceMemory);
    EXPECT_EQ(SYN(synDeviceFree)(0, a, 0), 0);
  }));
}

TEST(SynapseRules, CopiesNeedMappedHostMemoryAndAllocations) {
  const std::string log = scratch("copies.log");
  EXPECT_TRUE(in_child({{"TRANSOM_SYNAPSE_LOG", log}}, [] {
    Card card;
    uint64_t address = 0;
    EXPECT_EQ(SYN(synDeviceMalloc)(0, 256, 0, 0, &address), 0);
    std::vector<char> host(256, 5);
    const auto from = reinterpret_cast<uint64_t>(host.data());
    const synStreamHandle stream = card.stream();
    EXPECT_EQ(SYN(synMemCopyAsync)(stream, from, 256, address, HOST_TO_DRAM), synMappingNotFound);
    EXPECT_EQ(SYN(synHostMap)(0, 256, host.data()), 0);
    EXPECT_EQ(SYN(synHostMap)(0, 16, host.data() + 240), synInvalidArgument);
    EXPECT_EQ(SYN(synMemCopyAsync)(stream, from, 257, address, HOST_TO_DRAM), synMappingNotFound);
    EXPECT_EQ(SYN(synMemCopyAsync)(stream, from, 256, address + 1, HOST_TO_DRAM), synInvalidArgument);
    EXPECT_EQ(SYN(synMemCopyAsync)(stream, from, 256, address, HOST_TO_DRAM), 0);
    EXPECT_EQ(SYN(synStreamSynchronize)(stream), 0);
    EXPECT_EQ(SYN(synHostUnmap)(0, host.data()), 0);
    EXPECT_EQ(SYN(synHostUnmap)(0, host.data()), synMappingNotFound);
    EXPECT_EQ(SYN(synDeviceFree)(0, address, 0), 0);
    EXPECT_EQ(SYN(synDeviceFree)(0, address, 0), synInvalidArgument);
  }));
  EXPECT_EQ(count_of(read_file(log), " RULE "), 6) << read_file(log);
}

TEST(SynapseRules, NodesAreChecked) {
  EXPECT_TRUE(in_child({{"TRANSOM_SYNAPSE_GENERATION", "gaudi"}}, [] {
    Card card;
    const Value x = value({2, 3}, some(6));
    Value y = empty({2, 3});
    EXPECT_EQ(card.node("no_such_kernel_f32", {&x}, {&y}), synFail);
    EXPECT_EQ(card.node("exp_fwd", {&x}, {&y}), synFail);       // the suffix is missing
    EXPECT_EQ(card.node("exp_fwd_i32", {&x}, {&y}), synFail);   // no such type
    EXPECT_EQ(card.node("exp_fwd_f16", {&x}, {&y}), synFail);   // not on the first generation
    EXPECT_EQ(card.node("exp_fwd_bf16", {&x}, {&y}), synFail);  // operands of f32
    EXPECT_EQ(card.node("exp_fwd_f32", {&x}, {}), synFail);
    Value other = empty({3, 2});
    EXPECT_EQ(card.node("exp_fwd_f32", {&x}, {&other}), synFail);
    EXPECT_EQ(card.node("gemm", {&x, &x}, {&y}), synFail);
    const int64_t wrong[3] = {};
    EXPECT_EQ(card.node("transpose", {&x}, {&other}, wrong, sizeof wrong), synFail);
    EXPECT_EQ(card.node("exp_fwd_f32", {&x}, {&y}), 0);
    // Six dims are too many for a kernel.
    const Value deep = value({1, 1, 1, 1, 1, 2}, {1, 2});
    Value deep_result = empty(deep.sizes);
    EXPECT_EQ(card.node("exp_fwd_f32", {&deep}, {&deep_result}), synFail);
    EXPECT_EQ(card.node("identity", {&deep}, {&deep_result}), 0);
  }));
}

// A graph of exp, with handles at hand.
struct SingleNodeGraph {
  synGraphHandle graph = nullptr;
  synTensor in = nullptr, out = nullptr;
  synRecipeHandle recipe = nullptr;

  SingleNodeGraph(const Card& card, const Value& like) {
    EXPECT_EQ(SYN(synGraphCreate)(&graph, card.type()), 0);
    in = tensor(graph, "in", like, true);
    out = tensor(graph, "out", like, true);
  }
  int compile() {
    int status = SYN(synNodeCreate)(graph, &in, &out, 1, 1, nullptr, 0, "exp_fwd_f32", "n", nullptr, nullptr);
    if (status == 0) status = SYN(synGraphCompile)(&recipe, graph, "r", nullptr);
    return status;
  }
};

TEST(SynapseRules, TensorsAndSections) {
  EXPECT_TRUE(in_child({}, [] {
    Card card;
    const Value x = value({4}, {1, 2, 3, 4});
    SingleNodeGraph one(card, x);
    synTensor other = nullptr;
    EXPECT_EQ(SYN(synTensorHandleCreate)(&other, one.graph, DATA_TENSOR, "in"), synNameIsAlreadyUsed);
    EXPECT_EQ(SYN(synTensorHandleCreate)(&other, one.graph, DATA_TENSOR, "other"), 0);
    synTensorGeometry geometry = {};
    EXPECT_EQ(SYN(synTensorSetGeometry)(other, &geometry, synGeometryMaxSizes), synInvalidTensorDimensions);
    EXPECT_EQ(SYN(synTensorSetDeviceDataType)(other, 3), synInvalidArgument);
    geometry.dims = 1, geometry.sizes[0] = 4;
    EXPECT_EQ(SYN(synTensorSetGeometry)(other, &geometry, synGeometryMaxSizes), 0);
    EXPECT_EQ(SYN(synTensorSetDeviceDataType)(other, syn_type_single), 0);
    float numbers[4] = {};
    EXPECT_EQ(SYN(synTensorSetHostPtr)(other, numbers, 8, syn_type_single, true), synInvalidArgument);
    const synSectionHandle used = section(one.graph);
    EXPECT_EQ(SYN(synTensorAssignToSection)(other, used, 0), 0);
    EXPECT_EQ(SYN(synTensorAssignToSection)(other, used, 0), synObjectAlreadyInitialized);
    EXPECT_EQ(SYN(synSectionSetPersistent)(used, false), synFailedSectionValidation);
    // A tensor without section, data and producer is no input.
    synTensor loose = tensor(one.graph, "loose", x, false);
    EXPECT_EQ(SYN(synNodeCreate)(one.graph, &loose, &other, 1, 1, nullptr, 0, "exp_fwd_f32", "n", nullptr, nullptr), 0);
    EXPECT_EQ(one.compile(), synFail);
    EXPECT_EQ(SYN(synGraphDestroy)(one.graph), 0);
    EXPECT_EQ(SYN(synGraphDestroy)(one.graph), synInvalidArgument);
    EXPECT_EQ(SYN(synTensorSetExternal)(other, true), synInvalidArgument);  // went with its graph
  }));
}

TEST(SynapseRules, Launches) {
  EXPECT_TRUE(in_child({}, [] {
    Card card;
    const Value x = value({4}, {1, 2, 3, 4});
    SingleNodeGraph one(card, x);
    ASSERT_EQ(one.compile(), 0);
    EXPECT_EQ(one.compile(), synInvalidArgument);  // the graph is compiled
    const char* names[3] = {"in", "out", "nobody"};
    uint64_t ids[3] = {};
    EXPECT_EQ(SYN(synTensorRetrieveIds)(one.recipe, names, ids, 3), 0);
    EXPECT_EQ(ids[2], ~uint64_t{0});
    const uint64_t from = card.upload(x), to = card.upload(x);
    synLaunchTensorInfo infos[2] = {};
    infos[0].tensorId = ids[0], infos[0].pTensorAddress = from;
    infos[1].tensorId = ids[1], infos[1].pTensorAddress = to;
    const synStreamHandle stream = card.stream();
    EXPECT_EQ(SYN(synLaunch)(stream, infos, 1, 0, one.recipe, 0), synInvalidArgument);  // one is not listed
    infos[1].pTensorAddress = to + 4;
    EXPECT_EQ(SYN(synLaunch)(stream, infos, 2, 0, one.recipe, 0), synInvalidArgument);  // not inside
    infos[1].pTensorAddress = from;
    EXPECT_EQ(SYN(synLaunch)(stream, infos, 2, 0, one.recipe, 0), synInvalidArgument);  // in place without a section
    infos[1].pTensorAddress = to;
    infos[1].tensorId = 99;
    EXPECT_EQ(SYN(synLaunch)(stream, infos, 2, 0, one.recipe, 0), synInvalidArgument);
    infos[1].tensorId = ids[1];
    EXPECT_EQ(SYN(synLaunch)(stream, infos, 2, 0, reinterpret_cast<synRecipeHandle>(one.graph), 0), synInvalidArgument);
    EXPECT_EQ(SYN(synLaunch)(stream, infos, 2, 0, one.recipe, 0), 0);
    EXPECT_EQ(SYN(synStreamSynchronize)(stream), 0);
    EXPECT_FLOAT_EQ(static_cast<float>(card.download(to, x).numbers()[1]), std::exp(2.0f));
    synRetrievedLaunchTensorInfo info = {};
    info.tensorId = ids[0];
    EXPECT_EQ(SYN(synTensorRetrieveLaunchInfoById)(one.recipe, 1, &info), 0);
    EXPECT_STREQ(info.tensorName, "in");
    EXPECT_EQ(info.isInput, 1);
    EXPECT_EQ(info.tensorMaxSize[0], 4u);
    card.free(from);
    card.free(to);
    EXPECT_EQ(SYN(synRecipeDestroy)(one.recipe), 0);
    EXPECT_EQ(SYN(synGraphDestroy)(one.graph), 0);
  }));
}

// in -> add one -> out, both in one section; a second node reads the old value. The order of creation is the wrong one.
TEST(SynapseRules, UpdatesInPlaceKeepTheOldValueForItsReaders) {
  const std::string file = scratch("recipe");
  EXPECT_TRUE(in_child({}, [&] {
    Card card;
    const Value x = value({4}, {1, 2, 3, 4});
    synGraphHandle graph = nullptr;
    ASSERT_EQ(SYN(synGraphCreate)(&graph, card.type()), 0);
    const synSectionHandle shared = section(graph);
    const synTensor before = tensor(graph, "before", x, true, shared), after = tensor(graph, "after", x, true, shared);
    const synTensor doubled = tensor(graph, "doubled", x, true), middle = tensor(graph, "middle", x, false);
    const synTensor both[2] = {before, before};
    ASSERT_EQ(SYN(synNodeCreate)(graph, both, &after, 2, 1, nullptr, 0, "mult_fwd_f32", "square", nullptr, nullptr), 0);
    ASSERT_EQ(SYN(synNodeCreate)(graph, &before, &middle, 1, 1, nullptr, 0, "identity", "copy", nullptr, nullptr), 0);
    const synTensor sum[2] = {middle, before};
    ASSERT_EQ(SYN(synNodeCreate)(graph, sum, &doubled, 2, 1, nullptr, 0, "add_fwd_f32", "double", nullptr, nullptr), 0);
    synRecipeHandle recipe = nullptr;
    ASSERT_EQ(SYN(synGraphCompile)(&recipe, graph, "r", nullptr), 0);
    uint64_t bytes = 0, workspace = 0;
    EXPECT_EQ(SYN(synWorkspaceGetSize)(&bytes, recipe), 0);
    EXPECT_GE(bytes, 16u);
    const uint64_t place = card.upload(x), other = card.upload(x);
    synLaunchTensorInfo infos[3] = {};
    const char* names[3] = {"before", "after", "doubled"};
    for (int i = 0; i < 3; ++i) {
      infos[i].tensorName = names[i];
      infos[i].pTensorAddress = i == 2 ? other : place;
    }
    EXPECT_EQ(SYN(synLaunch)(card.stream(), infos, 3, 0, recipe, 1), synInvalidArgument);  // no workspace
    EXPECT_EQ(SYN(synDeviceMalloc)(0, bytes, 0, 0, &workspace), 0);
    EXPECT_EQ(SYN(synRecipeSerialize)(recipe, file.c_str()), 0);
    EXPECT_EQ(SYN(synRecipeDestroy)(recipe), 0);
    EXPECT_EQ(SYN(synRecipeDeSerialize)(&recipe, file.c_str()), 0);
    EXPECT_EQ(SYN(synLaunch)(card.stream(), infos, 3, workspace, recipe, 1), 0);
    EXPECT_EQ(SYN(synStreamSynchronize)(card.stream()), 0);
    EXPECT_EQ(card.download(place, x).numbers(), (std::vector<double>{1, 4, 9, 16}));
    EXPECT_EQ(card.download(other, x).numbers(), (std::vector<double>{2, 4, 6, 8}));
    for (const uint64_t address : {place, other, workspace}) card.free(address);
    EXPECT_EQ(SYN(synRecipeDestroy)(recipe), 0);
    EXPECT_EQ(SYN(synGraphDestroy)(graph), 0);
    EXPECT_EQ(SYN(synRecipeDeSerialize)(&recipe, SYNAPSE_LIBRARY), synFail);  // no recipe
  }));
}

}  // namespace
}  // namespace synapse_tests
