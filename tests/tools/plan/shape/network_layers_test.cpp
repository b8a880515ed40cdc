// SPDX-License-Identifier: Apache-2.0
#include "tools/plan/shape/network_layers.h"

#include <gtest/gtest.h>

#include "base/error.h"

namespace transom {
namespace {

LayerEngine small_engine() {
  LayerEngine engine;
  engine.input_channels = engine.output_channels = engine.lane_channels = 32, engine.pixels = 4, engine.lane_pixels = 2;
  engine.engines = 1, engine.cycles_per_second = 1e9, engine.map_bytes = 1e6;
  return engine;
}

TEST(NetworkLayers, StepsAreCountedInWholeBlocks) {
  // 33 channels are two blocks, seven columns two groups of four pixels.
  const Network network =
      parse_network(R"([["input",[],33,7,7,1,1],["convolution",[0],16,7,7,3,3],["depthwise",[1],16,7,7,3,3]])", "net");
  const TiledWork work = tiled_work(network, small_engine(), 1);
  EXPECT_EQ(work.product_cycles, 7 * 2 * 2 * 9);
  EXPECT_EQ(work.lane_cycles, 7 * 4 * 9);
  EXPECT_EQ(work.flops, 2.0 * 16 * 49 * (33 * 9 + 9));
  EXPECT_EQ(work.outputs, 16 * 49);
  EXPECT_EQ(work.moved, 49 * (64 + 32));  // the input and the result
}

TEST(NetworkLayers, APictureLaysColumnsBesideItsChannels) {
  const Network network = parse_network(R"([["input",[],3,8,8,1,1],["convolution",[0],32,8,8,3,3]])", "net");
  EXPECT_EQ(tiled_work(network, small_engine(), 1).product_cycles, 8 * 2 * 3);
}

TEST(NetworkLayers, WhatIsJoinedAndWhatDoesNotFitIsMoved) {
  const char* text = R"([["input",[],32,10,10,1,1],["convolution",[0],32,10,10,1,1],["convolution",[1],32,10,10,1,1],
      ["convolution",[1],32,10,10,1,1],["join",[2,3],64,10,10,1,1],["convolution",[4],32,10,10,1,1],
      ["convolution",[4],32,10,10,1,1],["sum",[5,6],32,10,10,1,1]])";
  LayerEngine engine = small_engine();
  const double map = 3200;
  // Input, two parts, the joined map twice by its readers, the result.
  EXPECT_EQ(tiled_work(parse_network(text, "net"), engine, 1).moved, map * (1 + 2 + 2 * 2 + 1));
  engine.map_bytes = 6000;  // no layer's two maps
  EXPECT_EQ(tiled_work(parse_network(text, "net"), engine, 1).moved, map * (1 + 3 + 2 + 2 * 2 + 4 + 1));
  engine.map_bytes = 1e6;
  EXPECT_GT(tiled_work(parse_network(text, "net"), engine, 1000).moved,
            tiled_work(parse_network(text, "net"), engine, 1).moved);
}

TEST(NetworkLayers, TheTableHasWhatPapersTellOfItsNetworks) {
  const LayerEngine engine = small_engine();
  const auto gflop = [&](const char* name) {
    const auto network = find_network(name);
    return network ? tiled_work(*network, engine, 1).flops / 1e9 : 0;
  };
  EXPECT_NEAR(gflop("resnet-50"), 8.2, 0.1);
  EXPECT_NEAR(gflop("vgg16"), 31, 0.2);
  EXPECT_NEAR(gflop("mobilenet-v1"), 1.14, 0.02);
  EXPECT_NEAR(gflop("inception-v4"), 24.5, 0.2);
  EXPECT_NEAR(gflop("yolov7"), 104.7, 0.8);
  EXPECT_NEAR(gflop("yolov8m"), 78.9, 0.3);
  EXPECT_EQ(find_network("no-such-network"), nullptr);
}

TEST(NetworkLayers, BrokenTablesSayWhere) {
  for (const char* text :
       {"{}", "[]", "[[]]", R"([["input",[],3,8,8,1]])", R"([["input",[0],3,8,8,1,1]])",
        R"([["input",[],3,8,8,1,1],["convolution",[1],3,8,8,1,1]])", R"([["input",[],3,8,8,1,0]])",
        R"([["input",[],3,8,1e9,1,1]])", R"([["dance",[],3,8,8,1,1]])",
        R"([["input",[],3,8,8,1,1],["sum",[],3,8,8,1,1]])", R"([["input",[],3,8,8,1,1],["sum",[-1],3,8,8,1,1]])"}) {
    try {
      parse_network(text, "table: net");
      ADD_FAILURE() << text;
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find("table: net"), std::string::npos) << error.what();
    }
  }
}

}  // namespace
}  // namespace transom
