// SPDX-License-Identifier: Apache-2.0
// ipu_config.json of Optimum Graphcore, and where it puts the nodes of a graph.
#include "ipu/device/ipu_config.h"

#include <gtest/gtest.h>

#include <array>
#include <random>

#include "ipu/lowering/placement.h"
#include "transom/plugin/error.h"

namespace transom::ipu {
namespace {

// As Graphcore/bert-large-ipu has it.
const char* const kBertLarge = R"({
  "embedding_serialization_factor": 1, "enable_half_partials": true, "executable_cache_dir": "./exe_cache",
  "execute_encoder_on_cpu_for_generation": false, "gradient_accumulation_steps": 256, "inference_device_iterations": 4,
  "inference_replication_factor": {"default": 1}, "ipus_per_replica": 4, "layers_per_ipu": [3, 7, 7, 7],
  "matmul_proportion": [0.1, 0.15, 0.15, 0.15], "optimizer_state_offchip": true, "optimum_version": "1.2.0.dev0",
  "output_mode": "final", "recompute_checkpoint_every_layer": true, "replicated_tensor_sharding": true,
  "replication_factor": 4, "seed": 42, "transformers_version": "4.20.1"})";

std::string refusal(const std::string& text) {
  try {
    parse_ipu_config(text, "ipu_config.json");
    return "";
  } catch (const backend::Failure& failure) {
    return failure.what();
  }
}

TEST(IpuConfig, IsReadAsItsUsersHaveIt) {
  const IpuConfig config = parse_ipu_config(kBertLarge, "ipu_config.json");
  EXPECT_EQ(config.layers_per_ipu, (std::vector<int64_t>{3, 7, 7, 7}));
  EXPECT_EQ(config.ipus_per_replica, 4u);
  EXPECT_EQ(config.gradient_accumulation_steps, 256u);
  EXPECT_TRUE(config.enable_half_partials);
  EXPECT_EQ(config.matmul_proportion.size(), 4u);
  EXPECT_TRUE(config.optimizer_state_offchip);
  EXPECT_EQ(config.executable_cache_dir, "./exe_cache");
  EXPECT_EQ(config.seed, 42u);
  EXPECT_FALSE(config.stochastic_rounding);
  EXPECT_TRUE(config.replicated_tensor_sharding);
  EXPECT_EQ(config.replication_factor, 4u);
}

TEST(IpuConfig, ReplicasHaveAPowerOfTwoOfIpus) {
  EXPECT_EQ(parse_ipu_config(R"({"layers_per_ipu": [1, 2, 3]})", "").ipus_per_replica, 4u);
  EXPECT_EQ(parse_ipu_config("{}", "").ipus_per_replica, 1u);
}

TEST(IpuConfig, WhatIsWrongIsNamed) {
  EXPECT_EQ(refusal(R"({"layers_per_ipu": "3"})"),
            "ipu_config.json: layers_per_ipu: expected a list of numbers, found \"3\"");
  EXPECT_NE(refusal(R"({"layers_per_ipu": [3, 7], "ipus_per_replica": 1})").find("ipus_per_replica"),
            std::string::npos);
  EXPECT_NE(refusal(R"({"matmul_proportion": 1.5})").find("matmul_proportion"), std::string::npos);
  EXPECT_NE(refusal(R"({"gradient_accumulation_steps": 18446744073709551615})").find("gradient_accumulation_steps"),
            std::string::npos);
  EXPECT_EQ(
      refusal(R"({"replicated_tensor_sharding": true})"),
      "ipu_config.json: replicated_tensor_sharding: expected a replication_factor of at least 2, found 1: set it, "
      "or leave replicated_tensor_sharding false");
  EXPECT_NE(refusal(R"({"optimizer_state_offchip": "yes"})").find("expected true or false"), std::string::npos);
  EXPECT_NE(refusal(R"({"executable_cache_dir": 3})").find("executable_cache_dir"), std::string::npos);
  EXPECT_NE(refusal(R"({"seed": -1})").find("seed"), std::string::npos);
  EXPECT_NE(refusal(std::string(100, '[')), "");
  EXPECT_NE(refusal("[]"), "");
}

TEST(IpuConfig, TruncatedAndFlippedTextsAreReadOrRefused) {
  const std::string text = kBertLarge;
  for (size_t length = 0; length < text.size(); ++length) EXPECT_NE(refusal(text.substr(0, length)), "") << length;
  std::mt19937 random(11);
  for (int i = 0; i < 2000; ++i) {
    std::string changed = text;
    changed[random() % changed.size()] ^= static_cast<char>(1 << random() % 8);
    refusal(changed);
  }
}

TEST(IpuPlacement, LayersAreTheFirstNumberOfAPath) {
  EXPECT_EQ(layer_of("bert.encoder.layer.11.attention.self"), 11);
  EXPECT_EQ(layer_of("h.0"), 0);
  EXPECT_EQ(layer_of("bert.embeddings"), -1);
  EXPECT_EQ(layer_of(""), -1);
}

TEST(IpuPlacement, NodesLieByLayersPerIpuAndInputsByTheirFirstReader) {
  // embedding -> layer 0 -> layer 1 -> head, each with a weight
  const char* scopes[] = {"embeddings", "encoder.layer.0.dense", "encoder.layer.1.dense", "classifier"};
  const int64_t shape[] = {2};
  std::vector<transom_value> values(9, {TRANSOM_FLOAT32, 1, shape, -1, 0});
  const int32_t graph_inputs[] = {0, 1, 2, 3, 4};
  std::vector<std::array<int32_t, 2>> inputs = {{0, 1}, {5, 2}, {6, 3}, {7, 4}};
  const int32_t outputs[] = {5, 6, 7, 8};
  std::vector<transom_node> nodes;
  for (size_t i = 0; i < 4; ++i)
    nodes.push_back({sizeof(transom_node), "mul", scopes[i], inputs[i].data(), 2, outputs + i, 1, nullptr, 0, nullptr});
  const transom_graph graph = {sizeof(transom_graph),
                               values.data(),
                               values.size(),
                               nodes.data(),
                               nodes.size(),
                               graph_inputs,
                               5,
                               outputs + 3,
                               1,
                               0};
  IpuConfig config;
  config.layers_per_ipu = {1, 1};
  config.ipus_per_replica = 2;
  Placement placement = place(graph, config);
  EXPECT_EQ(placement.nodes, (std::vector<uint32_t>{0, 0, 1, 1}));
  EXPECT_EQ(placement.inputs, (std::vector<uint32_t>{0, 0, 0, 1, 1}));
  config.layers_per_ipu = {0, -1};
  placement = place(graph, config);
  EXPECT_EQ(placement.nodes, (std::vector<uint32_t>{0, 1, 1, 1}));
}

}  // namespace
}  // namespace transom::ipu
