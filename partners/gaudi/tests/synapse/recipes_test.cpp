// SPDX-License-Identifier: Apache-2.0
// Permuted outputs, constant sections, duplicated graphs, and programs that meet a fault at each of their calls.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>

#include "synapse/harness.h"
#include "synapse/params.h"

namespace synapse_tests {
namespace {

using namespace synapse_emulator;
using Numbers = std::vector<double>;

// Launches with the tensors named; workspace as needed.
int launch(const Card& card, synRecipeHandle recipe, const std::vector<std::pair<const char*, uint64_t>>& tensors) {
  std::vector<synLaunchTensorInfo> infos;
  for (const auto& [name, address] : tensors) {
    synLaunchTensorInfo info = {};
    info.tensorName = name;
    info.pTensorAddress = address;
    infos.push_back(info);
  }
  uint64_t bytes = 0, workspace = 0;
  EXPECT_EQ(SYN(synWorkspaceGetSize)(&bytes, recipe), 0);
  if (bytes) {
    EXPECT_EQ(SYN(synDeviceMalloc)(0, bytes, 0, 0, &workspace), 0);
  }
  int status = SYN(synLaunch)(card.stream(), infos.data(), static_cast<uint32_t>(infos.size()), workspace, recipe, 1);
  if (status == 0) status = SYN(synStreamSynchronize)(card.stream());
  if (workspace) {
    EXPECT_EQ(SYN(synDeviceFree)(0, workspace, 0), 0);
  }
  return status;
}

TEST(SynapseRecipes, PermutedOutputsAreReadBackWithTheirPermutation) {
  EXPECT_TRUE(in_child({{"TRANSOM_SYNAPSE_PERMUTE", "1"}}, [] {
    Card card;
    const Value x = value({3, 2, 2, 1}, some(12)), w = value({1, 1, 2, 2}, {1, 0, 0, 1});  // the identity
    Value y = empty({3, 2, 2, 1});
    ConvolutionParams params = {};
    params.kW = params.kH = params.dW = params.dH = params.dilW = params.dilH = params.nGroups = 1;
    synGraphHandle graph = nullptr;
    ASSERT_EQ(SYN(synGraphCreate)(&graph, card.type()), 0);
    const synTensor in[2] = {tensor(graph, "x", x, true), tensor(graph, "w", w, true)};
    const synTensor out = tensor(graph, "y", y, true);
    ASSERT_EQ(SYN(synTensorSetAllowPermutation)(out, 1), 0);
    ASSERT_EQ(
        SYN(synNodeCreate)(graph, in, &out, 2, 1, &params, sizeof params, "spatial_convolution", "c", nullptr, nullptr),
        0);
    synRecipeHandle recipe = nullptr;
    ASSERT_EQ(SYN(synGraphCompile)(&recipe, graph, "c", nullptr), 0);
    ASSERT_EQ(SYN(synGraphDestroy)(graph), 0);
    const char* name = "y";
    synRetrievedLaunchTensorInfo info = {};
    ASSERT_EQ(SYN(synTensorRetrieveIds)(recipe, &name, &info.tensorId, 1), 0);
    ASSERT_EQ(SYN(synTensorRetrieveLaunchInfoById)(recipe, 1, &info), 0);
    EXPECT_EQ(std::vector<uint8_t>(info.tensorPermutation, info.tensorPermutation + 4),
              (std::vector<uint8_t>{2, 0, 1, 3}));
    const uint64_t from = card.upload(x), weight = card.upload(w), to = card.upload(y), plain = card.upload(y);
    ASSERT_EQ(launch(card, recipe, {{"x", from}, {"w", weight}, {"y", to}}), 0);
    const Numbers memory = card.download(to, y).numbers(), xs = x.numbers();
    for (size_t c = 0; c < 2; ++c)
      for (size_t place = 0; place < 6; ++place) EXPECT_EQ(memory[place * 2 + c], xs[c * 6 + place]);
    EXPECT_EQ(SYN(synRecipeDestroy)(recipe), 0);
    // The next recipe is told, and reads it in the order of the sizes.
    ASSERT_EQ(SYN(synGraphCreate)(&graph, card.type()), 0);
    const synTensor again = tensor(graph, "y", y, true), copy = tensor(graph, "copy", y, true);
    synTensorPermutation permutation = {};
    permutation.dims = 4;
    std::copy(info.tensorPermutation, info.tensorPermutation + 4, permutation.permutation);
    ASSERT_EQ(SYN(synTensorSetPermutation)(again, &permutation), 0);
    ASSERT_EQ(SYN(synNodeCreate)(graph, &again, &copy, 1, 1, nullptr, 0, "identity", "i", nullptr, nullptr), 0);
    ASSERT_EQ(SYN(synGraphCompile)(&recipe, graph, "i", nullptr), 0);
    ASSERT_EQ(SYN(synGraphDestroy)(graph), 0);
    ASSERT_EQ(launch(card, recipe, {{"y", to}, {"copy", plain}}), 0);
    EXPECT_EQ(card.download(plain, y).numbers(), xs);
    EXPECT_EQ(SYN(synRecipeDestroy)(recipe), 0);
    for (const uint64_t address : {from, weight, to, plain}) card.free(address);
  }));
}

TEST(SynapseRecipes, ConstantsAndConstantSections) {
  EXPECT_TRUE(in_child({}, [] {
    Card card;
    const Value x = value({2}, {1, 2});
    synGraphHandle graph = nullptr;
    ASSERT_EQ(SYN(synGraphCreate)(&graph, card.type()), 0);
    float three[2] = {3, 4}, ten[2] = {10, 20};
    const synTensor constant = tensor(graph, "constant", x, false);
    ASSERT_EQ(SYN(synTensorSetHostPtr)(constant, three, 8, syn_type_single, true), 0);
    three[0] = 0;  // it was copied
    synSectionHandle weights = nullptr;
    ASSERT_EQ(SYN(synSectionCreate)(&weights, 0, graph), 0);
    ASSERT_EQ(SYN(synSectionSetPersistent)(weights, true), 0);
    ASSERT_EQ(SYN(synSectionSetConst)(weights, true), 0);
    ASSERT_EQ(SYN(synSectionSetGroup)(weights, 1), 0);
    const synTensor weight = tensor(graph, "weight", x, true, weights);
    ASSERT_EQ(SYN(synTensorSetHostPtr)(weight, ten, 8, syn_type_single, true), 0);
    const synTensor in = tensor(graph, "in", x, true), sum = tensor(graph, "sum", x, false),
                    out = tensor(graph, "out", x, true);
    const synTensor first[2] = {in, constant}, second[2] = {sum, weight};
    ASSERT_EQ(SYN(synNodeCreate)(graph, second, &out, 2, 1, nullptr, 0, "mult_fwd_f32", "m", nullptr, nullptr), 0);
    ASSERT_EQ(SYN(synNodeCreate)(graph, first, &sum, 2, 1, nullptr, 0, "add_fwd_f32", "a", nullptr, nullptr), 0);
    // A duplicate compiles like the graph itself.
    uint32_t tensors = 0, nodes = 0;
    synGraphHandle copy = nullptr;
    ASSERT_EQ(SYN(synGraphDuplicate)(graph, &copy, nullptr, &tensors, nullptr, &nodes), 0);
    EXPECT_EQ(tensors, 5u);
    EXPECT_EQ(nodes, 2u);
    std::vector<synTensorHandleMap> tensor_map(tensors);
    std::vector<synNodeHandleMap> node_map(nodes);
    ASSERT_EQ(SYN(synGraphDuplicate)(graph, &copy, tensor_map.data(), &tensors, node_map.data(), &nodes), 0);
    for (const synGraphHandle one : {graph, copy}) {
      synRecipeHandle recipe = nullptr;
      ASSERT_EQ(SYN(synGraphCompile)(&recipe, one, "r", nullptr), 0);
      ASSERT_EQ(SYN(synGraphDestroy)(one), 0);
      synRetrievedLaunchTensorInfo info = {};
      const char* name = "weight";
      ASSERT_EQ(SYN(synTensorRetrieveIds)(recipe, &name, &info.tensorId, 1), 0);
      ASSERT_EQ(SYN(synTensorRetrieveLaunchInfoById)(recipe, 1, &info), 0);
      uint64_t size = 0, data = 0;
      ASSERT_EQ(SYN(synRecipeSectionGetProp)(recipe, info.tensorSectionId, 0, &size), 0);
      ASSERT_EQ(SYN(synRecipeSectionGetProp)(recipe, info.tensorSectionId, 1, &data), 0);
      ASSERT_EQ(size, 8u);
      Value kept = x;
      std::memcpy(kept.bytes.data(), reinterpret_cast<const void*>(data), size);
      EXPECT_EQ(kept.numbers(), (Numbers{10, 20}));
      const uint64_t from = card.upload(x), to = card.upload(x), place = card.upload(kept);
      ASSERT_EQ(launch(card, recipe, {{"in", from}, {"out", to}, {"weight", place}}), 0);
      EXPECT_EQ(card.download(to, x).numbers(), (Numbers{40, 120}));
      for (const uint64_t address : {from, to, place}) card.free(address);
      EXPECT_EQ(SYN(synRecipeDestroy)(recipe), 0);
    }
  }));
}

TEST(SynapseRecipes, AnIndexOutOfRangeFailsItsStreamOnly) {
  const std::string log = scratch("index.log");
  EXPECT_TRUE(in_child({{"TRANSOM_SYNAPSE_LOG", log}}, [] {
    Card card;
    const Value table = value({2, 4}, Numbers(8, 1)), places = value({1}, {4}, syn_type_int32), row = empty({2, 1});
    synGraphHandle graph = nullptr;
    ASSERT_EQ(SYN(synGraphCreate)(&graph, card.type()), 0);
    const synTensor in[2] = {tensor(graph, "table", table, true), tensor(graph, "places", places, true)};
    const synTensor out = tensor(graph, "row", row, true);
    ASSERT_EQ(SYN(synNodeCreate)(graph, in, &out, 2, 1, nullptr, 0, "embedding_pt_fwd_f32", "e", nullptr, nullptr), 0);
    synRecipeHandle recipe = nullptr;
    ASSERT_EQ(SYN(synGraphCompile)(&recipe, graph, "e", nullptr), 0);
    ASSERT_EQ(SYN(synGraphDestroy)(graph), 0);
    const uint64_t from = card.upload(table), at = card.upload(places), to = card.upload(row);
    synStreamHandle other = nullptr;
    ASSERT_EQ(SYN(synStreamCreateGeneric)(&other, 0, 0), 0);
    synLaunchTensorInfo infos[3] = {};
    infos[0].tensorName = "table", infos[0].pTensorAddress = from;
    infos[1].tensorName = "places", infos[1].pTensorAddress = at;
    infos[2].tensorName = "row", infos[2].pTensorAddress = to;
    EXPECT_EQ(SYN(synLaunch)(other, infos, 3, 0, recipe, 1), 0);
    EXPECT_EQ(SYN(synStreamSynchronize)(other), synFail);
    EXPECT_EQ(SYN(synStreamSynchronize)(card.stream()), 0);
    EXPECT_EQ(SYN(synStreamDestroy)(other), 0);
    EXPECT_EQ(SYN(synRecipeDestroy)(recipe), 0);
    for (const uint64_t address : {from, at, to}) card.free(address);
  }));
  EXPECT_EQ(count_of(read_file(log), " RULE index-range"), 1) << read_file(log);
}

// A program that ends in order at the first call that fails.
void careful_program() {
  if (SYN(synInitialize)() != 0) return;
  synDeviceId device = 0;
  if (SYN(synDeviceAcquire)(&device, nullptr) == 0) {
    synDeviceInfo info = {};
    synStreamHandle stream = nullptr;
    synGraphHandle graph = nullptr;
    synRecipeHandle recipe = nullptr;
    uint64_t address = 0;
    void* host = nullptr;
    const auto work = [&] {
      if (SYN(synDeviceGetInfo)(device, &info) || SYN(synStreamCreateGeneric)(&stream, device, 0)) return;
      if (SYN(synDeviceMalloc)(device, 256, 0, 0, &address) || SYN(synHostMalloc)(device, 64, 0, &host)) return;
      if (SYN(synGraphCreate)(&graph, info.deviceType)) return;
      synTensor tensors[2] = {};
      for (int i = 0; i < 2; ++i) {
        synTensorGeometry geometry = {};
        geometry.dims = 1, geometry.sizes[0] = 16;
        synSectionHandle section = nullptr;
        if (SYN(synTensorHandleCreate)(&tensors[i], graph, DATA_TENSOR, i ? "out" : "in") ||
            SYN(synTensorSetGeometry)(tensors[i], &geometry, synGeometryMaxSizes) ||
            SYN(synTensorSetDeviceDataType)(tensors[i], syn_type_single) || SYN(synSectionCreate)(&section, 0, graph) ||
            SYN(synSectionSetPersistent)(section, true) || SYN(synTensorAssignToSection)(tensors[i], section, 0))
          return;
      }
      if (SYN(synNodeCreate)(graph, &tensors[0], &tensors[1], 1, 1, nullptr, 0, "neg_fwd_f32", "n", nullptr, nullptr) ||
          SYN(synGraphCompile)(&recipe, graph, "r", nullptr))
        return;
      if (SYN(synMemCopyAsync)(stream, reinterpret_cast<uint64_t>(host), 64, address, HOST_TO_DRAM)) return;
      synLaunchTensorInfo infos[2] = {};
      infos[0].tensorName = "in", infos[0].pTensorAddress = address;
      infos[1].tensorName = "out", infos[1].pTensorAddress = address + 128;
      if (SYN(synLaunch)(stream, infos, 2, 0, recipe, 1)) return;
      SYN(synStreamSynchronize)(stream);
    };
    work();
    if (graph) SYN(synGraphDestroy)(graph);
    if (recipe) SYN(synRecipeDestroy)(recipe);
    if (stream) SYN(synStreamDestroy)(stream);
    if (host) SYN(synHostFree)(device, host, 0);
    if (address) SYN(synDeviceFree)(device, address, 0);
    SYN(synDeviceRelease)(device);
  }
  SYN(synDestroy)();
}

TEST(SynapseFaults, AtAnyCallLeaveOrderlyProgramsAlive) {
  const std::string log = scratch("faults.log");
  for (const char* kind : {"out_of_memory", "device_lost", "failed"}) {
    for (int call = 1; call <= 24; ++call) {
      SCOPED_TRACE(std::string(kind) + " at call " + std::to_string(call));
      EXPECT_TRUE(
          in_child({{"TRANSOM_SYNAPSE_LOG", log}, {"TRANSOM_SYNAPSE_FAULT", "*:" + std::to_string(call) + ":" + kind}},
                   careful_program));
    }
  }
  const std::string text = read_file(log);
  EXPECT_EQ(count_of(text, " FAULT "), 3 * 24);
  EXPECT_EQ(count_of(text, " RULE "), 0) << text.substr(0, 4000);
}

}  // namespace
}  // namespace synapse_tests
