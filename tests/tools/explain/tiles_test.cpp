// SPDX-License-Identifier: Apache-2.0
// What a machine of tiles tells, as text and pictures; what it tells wrong is refused.
#include <gtest/gtest.h>

#include "base/error.h"
#include "base/json/json.h"
#include "tools/explain/explanation.h"

namespace transom {
namespace {

Json cycles(int64_t compute, int64_t exchange) {
  return {{"compute", compute}, {"exchange", exchange}, {"sync", 10}, {"link", 0}, {"host", 0}};
}

Json step(int64_t chip, const char* name, int64_t compute) {
  Json made = cycles(compute, 30);
  made["chip"] = chip;
  made["name"] = name;
  return made;
}

Json tiles(std::vector<int64_t> always) {
  return {{"always_live", always}, {"temporary", {10, 20, 30, 40}}, {"code", {1, 1, 1, 1}}};
}

Json two_chips() {
  return {{"emulated", true},
          {"clocks_alone", true},
          {"clock", 1e9},
          {"chips", 2},
          {"tiles_per_chip", 2},
          {"bytes_per_tile", 1000},
          {"fullest_tile", 541},
          {"cycles", cycles(300, 60)},
          {"tiles", tiles({100, 200, 300, 500})},
          {"steps", {step(0, "layer.0 <dense>", 100), step(1, "layer.1", 200)}},
          {"pipeline",
           {{"micro_batches", 4},
            {"seconds", 2.0},
            {"slowest", 240},
            {"by_chip", {140, 240}},
            {"fullest_tile", 1041},
            {"fits", false},
            {"tiles", tiles({100, 200, 300, 1000})}}}};
}

Explanation explanation_of(const Json& machine) {
  Explanation e;
  e.samples = 8;
  e.machine = machine.dump();
  return e;
}

TEST(Tiles, TextSaysClocksMemoryAndThePipeline) {
  const std::string text = machine_text(explanation_of(two_chips()));
  for (const char* part : {"emulated, clocks alone: no values were computed", "370 cycles", "compute 81.1 %",
                           "541 of 1000", "240 cycles between two micro-batches", "16.0 samples/s", "it does not fit"})
    EXPECT_NE(text.find(part), std::string::npos) << part << " in\n" << text;
}

TEST(Tiles, PicturesHaveEachTileAndStep) {
  const std::string page = machine_pictures(explanation_of(two_chips()));
  EXPECT_NE(page.find("layer.0 &lt;dense&gt;: compute 100 cycles"), std::string::npos);
  EXPECT_EQ(page.find("<dense>"), std::string::npos);
  for (const char* part :
       {"tile 3: 541 of 1000 bytes", "tile 3: 1041 of 1000 bytes", "Memory by tile, as a pipeline", "chip 1"})
    EXPECT_NE(page.find(part), std::string::npos) << part;
}

TEST(Tiles, DevicesThatTellNothingHaveNoPictures) {
  EXPECT_EQ(machine_text(Explanation()), "");
  EXPECT_EQ(machine_pictures(Explanation()), "");
}

TEST(Tiles, WhatADeviceTellsWrongIsRefused) {
  const auto refused = [](const char* name, const Json& value) {
    Json machine = two_chips();
    machine[name] = value;
    try {
      machine_pictures(explanation_of(machine));
      return false;
    } catch (const Error&) {
      return true;
    }
  };
  EXPECT_TRUE(refused("clock", 0));
  EXPECT_TRUE(refused("chips", 1 << 30));
  EXPECT_TRUE(refused("tiles_per_chip", 3));  // the lists have two each
  EXPECT_TRUE(refused("tiles", Json::array()));
  EXPECT_TRUE(refused("steps", {{{"chip", 0}}}));
  EXPECT_TRUE(refused("steps", {step(5, "beyond", 1)}));
  EXPECT_TRUE(refused("cycles", 7));
  EXPECT_TRUE(refused("pipeline", "none"));
  Explanation broken;
  broken.machine = "{";
  EXPECT_THROW(machine_text(broken), Error);
}

}  // namespace
}  // namespace transom
