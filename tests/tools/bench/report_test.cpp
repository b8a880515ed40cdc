// SPDX-License-Identifier: Apache-2.0
#include "tools/bench/report.h"

#include <gtest/gtest.h>

#include "base/json/json.h"
#include "support/message.h"

namespace transom {
namespace {

using test::message_of;

BenchReport example() {
  return {.name = "example",
          .phases = {{"load_model", {0.5}, 0, 100}, {"forward", {0.1, 0.2, 0.3}, 4, 120}},
          .kernels = {{"linear", "onednn", "f32[2, 3] -> f32[2, 3]", 10, 0.9}, {"add", "tiles", "f32[2]", 10, 0.005}}};
}

TEST(Report, HasTheFieldsOfOptimumBenchmark) {
  const Json json = to_json(example(), {{"backend", {{"name", "transom"}}}, {"environment", Json::object()}});
  ASSERT_EQ(json.size(), 2u);
  EXPECT_EQ(json["config"]["name"], "example");
  const Json& phase = json["report"]["forward"];
  for (const char* key : {"memory", "latency", "throughput", "energy", "efficiency"}) EXPECT_TRUE(phase.contains(key));
  EXPECT_EQ(phase.size(), 5u);
  EXPECT_TRUE(phase["energy"].is_null() && phase["efficiency"].is_null());
  for (const char* key : {"unit", "values", "count", "total", "mean", "p50", "p90", "p95", "p99", "stdev", "stdev_"})
    EXPECT_TRUE(phase["latency"].contains(key)) << key;
  EXPECT_EQ(phase["latency"].size(), 11u);
  EXPECT_EQ(phase["latency"]["unit"], "s");
  EXPECT_EQ(phase["latency"]["count"], 3);
  EXPECT_EQ(phase["throughput"]["unit"], "samples/s");
  EXPECT_DOUBLE_EQ(phase["throughput"]["value"].get<double>(), 20);
  EXPECT_EQ(phase["memory"]["unit"], "MB");
  EXPECT_EQ(phase["memory"]["max_ram"], 120.0);
  EXPECT_TRUE(phase["memory"]["max_global_vram"].is_null());
  EXPECT_TRUE(json["report"]["load_model"]["throughput"].is_null());
}

TEST(Report, IsReadBack) {
  const Json json = to_json(example(), Json::object());
  const BenchReport report = parse_report(dump_json(json), "r.json");
  ASSERT_EQ(report.phases.size(), 2u);
  EXPECT_EQ(report.name, "example");
  EXPECT_EQ(report.phases[1].seconds, (std::vector<double>{0.1, 0.2, 0.3}));
  EXPECT_NEAR(report.phases[1].samples, 4, 1e-12);
  EXPECT_EQ(report.phases[1].max_ram, 120);
  ASSERT_EQ(report.kernels.size(), 2u);
  EXPECT_EQ(report.kernels[0].calls, 10u);
  // benchmark_report.json is the phases alone.
  EXPECT_EQ(parse_report(dump_json(json["report"]), "r.json").phases.size(), 2u);
}

TEST(Report, RefusesWhatIsNone) {
  EXPECT_NE(message_of([] { parse_report("[]", "r.json"); }).find("r.json"), std::string::npos);
  EXPECT_NE(message_of([] { parse_report(R"({"report": {}})", "r.json"); }).find("phases"), std::string::npos);
  EXPECT_NE(message_of([] {
              parse_report(R"({"report": {"forward": {"latency": {"values": ["x"]}}}})", "r.json");
            }).find("forward"),
            std::string::npos);
}

TEST(Comparison, NamesWhatBecameWorse) {
  BenchReport before = example();
  before.phases[1].seconds = {0.19, 0.2, 0.21};
  BenchReport after = before;
  EXPECT_FALSE(compare_phases(before, after, 0)[0].regression);
  after.phases[1].seconds = {0.24, 0.25, 0.26};
  after.phases.push_back({"new", {1}, 0, 1});
  const std::vector<Comparison> phases = compare_phases(before, after, 0.05);
  ASSERT_EQ(phases.size(), 4u);  // two phases, latency and memory of each; the new one has nothing to compare with
  EXPECT_EQ(phases[2].name, "forward");
  EXPECT_EQ(phases[2].quantity, "latency");
  EXPECT_DOUBLE_EQ(phases[2].ratio(), 1.25);
  EXPECT_TRUE(phases[2].regression);
  EXPECT_FALSE(phases[3].regression);
  EXPECT_FALSE(compare_phases(before, after, 0.3)[2].regression);
}

TEST(Comparison, TheSpreadOfOneProgramIsNoRegression) {
  BenchReport before = example(), after = example();
  // Half of the times lie where the others lie; the medians are 20 % apart.
  before.phases[1].seconds = {0.10, 0.11, 0.12, 0.16, 0.17};
  after.phases[1].seconds = {0.11, 0.12, 0.144, 0.16, 0.18};
  EXPECT_FALSE(compare_phases(before, after, 0.05)[2].regression);
  // What is measured once says little.
  after.phases[0].seconds = {0.5 * 1.3};
  EXPECT_FALSE(compare_phases(before, after, 0.05)[0].regression);
  after.phases[0].seconds = {0.5 * 1.6};
  EXPECT_TRUE(compare_phases(before, after, 0.05)[0].regression);
}

TEST(Comparison, FindsTheKernelAndIgnoresSmallOnes) {
  const BenchReport before = example();
  BenchReport after = example();
  after.kernels[0].kernel = "another name of it";
  after.kernels[0].calls = 20;  // the mean of a call counts, not how many there were
  after.kernels[0].seconds = 3.6;
  after.kernels[1].seconds = 0.02;
  const std::vector<Comparison> kernels = compare_kernels(before, after, 0.05);
  ASSERT_EQ(kernels.size(), 2u);
  EXPECT_NE(kernels[0].name.find("linear"), std::string::npos);
  EXPECT_DOUBLE_EQ(kernels[0].ratio(), 2);
  EXPECT_TRUE(kernels[0].regression);
  EXPECT_DOUBLE_EQ(kernels[1].ratio(), 4);
  EXPECT_FALSE(kernels[1].regression);
}

}  // namespace
}  // namespace transom
