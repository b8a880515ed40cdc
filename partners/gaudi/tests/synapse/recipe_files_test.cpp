// SPDX-License-Identifier: Apache-2.0
// Recipes on disk are read as hostile: whatever byte of one is changed, it is refused, or runs inside of its memory.
#include <gtest/gtest.h>

#include <fstream>

#include "synapse/harness.h"
#include "synapse/params.h"

namespace synapse_tests {
namespace {

using namespace synapse_emulator;

struct Files {
  std::string whole, damaged;
};

struct Node {
  const char* guid;
  std::vector<synTensor> inputs;
  synTensor output;
  std::vector<char> params;
};

template <typename P>
std::vector<char> bytes_of(const P& params) {
  const auto* begin = reinterpret_cast<const char*>(&params);
  return {begin, begin + sizeof params};
}

// Kernels whose params say where they read: softmax, permutation, slice, product, lookup; a constant; a section of two.
void write_recipe(const Card& card, const std::string& path) {
  synGraphHandle graph = nullptr;
  ASSERT_EQ(SYN(synGraphCreate)(&graph, card.type()), 0);
  const Value wide = value({3, 4}, some(12)), high = value({4, 3}, some(12)), square = value({4, 4}, some(16));
  const Value part = value({2, 4}, some(8)), places = value({2}, {1, 0}, syn_type_int32), rows = value({4, 2}, some(8));
  const synSectionHandle both = section(graph);
  const synTensor x = tensor(graph, "x", wide, true, both), y = tensor(graph, "y", wide, true, both);
  const synTensor constant = tensor(graph, "constant", wide, false), sum = tensor(graph, "sum", wide, false);
  ASSERT_EQ(SYN(synTensorSetHostPtr)(constant, const_cast<char*>(wide.bytes.data()), 48, syn_type_single, true), 0);
  const synTensor turned = tensor(graph, "turned", high, false), product = tensor(graph, "product", square, false);
  const synTensor sliced = tensor(graph, "sliced", part, true), at = tensor(graph, "at", places, true);
  const synTensor found = tensor(graph, "found", rows, true);
  TransposeParams order = {{1, 0, 0, 0, 0}, 2};
  SliceParams slice = {};
  slice.axes[1] = 1;
  slice.starts[0] = 1, slice.ends[0] = 3, slice.ends[1] = 4;
  slice.steps[0] = slice.steps[1] = 1;
  const std::vector<Node> nodes = {
      {"add_fwd_f32", {x, constant}, sum, {}},
      {"softmax_fwd_f32", {sum}, y, bytes_of(SoftmaxParams{0})},
      {"transpose", {sum}, turned, bytes_of(order)},
      {"slice", {sum}, sliced, bytes_of(slice)},
      {"gemm", {sum, turned}, product, bytes_of(GemmParams{false, false})},
      {"embedding_pt_fwd_f32", {product, at}, found, {}},
  };
  for (const Node& node : nodes)
    ASSERT_EQ(SYN(synNodeCreate)(graph, node.inputs.data(), &node.output, static_cast<uint32_t>(node.inputs.size()), 1,
                                 node.params.empty() ? nullptr : node.params.data(),
                                 static_cast<uint32_t>(node.params.size()), node.guid, node.guid, nullptr, nullptr),
              0)
        << node.guid;
  synRecipeHandle recipe = nullptr;
  ASSERT_EQ(SYN(synGraphCompile)(&recipe, graph, "r", nullptr), 0);
  ASSERT_EQ(SYN(synGraphDestroy)(graph), 0);
  ASSERT_EQ(SYN(synRecipeSerialize)(recipe, path.c_str()), 0);
  ASSERT_EQ(SYN(synRecipeDestroy)(recipe), 0);
}

// Reads and runs the recipe; true if all of it succeeded. The stream is one that may fail.
bool runs(const std::string& path, const std::vector<uint64_t>& addresses) {
  synRecipeHandle recipe = nullptr;
  if (SYN(synRecipeDeSerialize)(&recipe, path.c_str()) != 0) return false;
  synStreamHandle stream = nullptr;
  EXPECT_EQ(SYN(synStreamCreateGeneric)(&stream, 0, 0), 0);
  const char* names[] = {"x", "y", "sliced", "at", "found"};
  synLaunchTensorInfo infos[5] = {};
  for (size_t i = 0; i < 5; ++i) {
    infos[i].tensorName = names[i];
    infos[i].pTensorAddress = addresses[i];
  }
  uint64_t bytes = 0, workspace = 0;
  EXPECT_EQ(SYN(synWorkspaceGetSize)(&bytes, recipe), 0);
  bool success = bytes < 1 << 20;  // what computes for hours is no less valid
  if (success && bytes) success = SYN(synDeviceMalloc)(0, bytes, 0, 0, &workspace) == 0;
  success = success && SYN(synLaunch)(stream, infos, 5, workspace, recipe, 1) == 0;
  success = SYN(synStreamSynchronize)(stream) == 0 && success;
  EXPECT_EQ(SYN(synStreamDestroy)(stream), 0);
  if (workspace) {
    EXPECT_EQ(SYN(synDeviceFree)(0, workspace, 0), 0);
  }
  EXPECT_EQ(SYN(synRecipeDestroy)(recipe), 0);
  return success;
}

void change_bytes(const Files& files, const std::function<void(const std::function<bool(std::string)>&)>& change) {
  EXPECT_TRUE(in_child({}, [&] {
    Card card;
    write_recipe(card, files.whole);
    if (testing::Test::HasFailure()) return;
    const Value wide = value({3, 4}, some(12));
    const uint64_t shared = card.upload(wide);
    const std::vector<uint64_t> addresses = {shared, shared, card.upload(value({2, 4}, some(8))),
                                             card.upload(value({2}, {1, 0}, syn_type_int32)),
                                             card.upload(value({4, 2}, some(8)))};
    ASSERT_TRUE(runs(files.whole, addresses));
    change([&](const std::string& bytes) {
      std::ofstream(files.damaged, std::ios::binary).write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
      return runs(files.damaged, addresses);
    });
    for (size_t i = 1; i < addresses.size(); ++i) card.free(addresses[i]);
  }));
}

TEST(SynapseRecipeFiles, AByteThatChangedIsRefusedOrHarmless) {
  const Files files = {scratch("whole"), scratch("damaged")};
  change_bytes(files, [&](const auto& run) {
    const std::string whole = read_file(files.whole);
    size_t refused = 0;
    for (size_t at = 0; at < whole.size(); ++at)
      for (const int mask : {0x01, 0xFE}) {
        std::string bytes = whole;
        bytes[at] = static_cast<char>(bytes[at] ^ mask);
        refused += !run(bytes);
      }
    EXPECT_GT(refused, whole.size() / 2);
  });
}

TEST(SynapseRecipeFiles, ACutOneIsRefused) {
  const Files files = {scratch("whole"), scratch("damaged")};
  change_bytes(files, [&](const auto& run) {
    const std::string whole = read_file(files.whole);
    for (size_t size = 0; size < whole.size(); size += 7) EXPECT_FALSE(run(whole.substr(0, size))) << size;
    EXPECT_FALSE(run(whole + std::string(1, '\0')));
  });
}

// Sizes whose product wraps around: 2^16 eight times is 0 in 64 bits.
TEST(SynapseRecipeFiles, SizesTooLargeForTheirProductAreRefused) {
  const Files files = {scratch("whole"), scratch("damaged")};
  change_bytes(files, [&](const auto& run) {
    const std::string whole = read_file(files.whole);
    const auto number = [](uint64_t value) { return std::string(reinterpret_cast<const char*>(&value), sizeof value); };
    const std::string before = number(2) + number(3) + number(4);
    std::string after = number(8);
    for (int dim = 0; dim < 8; ++dim) after += number(uint64_t{1} << 16);
    size_t tried = 0;
    for (size_t at = whole.find(before); at != std::string::npos; at = whole.find(before, at + 1), ++tried)
      EXPECT_FALSE(run(whole.substr(0, at) + after + whole.substr(at + before.size())));
    EXPECT_GE(tried, 4u);
  });
}

}  // namespace
}  // namespace synapse_tests
