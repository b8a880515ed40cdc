// SPDX-License-Identifier: Apache-2.0
#include "tools/explain/explanation.h"

#include <gtest/gtest.h>

#include <regex>

#include "base/json/json.h"
#include "graph/ir/graph.h"
#include "support/message.h"
#include "support/tiny_classifier.h"

namespace transom {
namespace {

using test::message_of;
using test::TinyClassifier;

Explanation explained(const std::string& task) {
  const TinyClassifier model;
  BenchOptions options;
  options.model = model.path();
  options.task = task;
  options.batch_size = 2;
  options.sequence_length = 8;
  return explain(options, 2);
}

const Explanation& forward() {
  static const Explanation instance = explained("forward");
  return instance;
}
const Explanation& training() {
  static const Explanation instance = explained("train");
  return instance;
}

size_t count_of(const std::string& text, const std::string& word) {
  size_t count = 0;
  for (size_t at = text.find(word); at != text.npos; at = text.find(word, at + 1)) ++count;
  return count;
}

TEST(Explanation, HoldsTheGraphBeforeAndAfterEachPass) {
  for (const Explanation* e : {&forward(), &training()}) {
    ASSERT_GE(e->passes.size(), 2u);
    EXPECT_EQ(e->passes.front().name, "trace");
    for (const Explanation::Pass& pass : e->passes) EXPECT_EQ(parse_graph(pass.graph).nodes.size(), pass.nodes);
    EXPECT_GT(e->passes.front().operations.at("linear"), 0u);
    EXPECT_EQ(e->passes.back().nodes, e->kernels.size());
  }
  EXPECT_GT(training().passes.front().nodes, forward().passes.front().nodes);
}

TEST(Explanation, SaysWhatEachKernelComputesAndCosts) {
  const Explanation& e = training();
  double products = 0, seconds = 0;
  size_t fusions = 0;
  for (const Explanation::Kernel& kernel : e.kernels) {
    EXPECT_FALSE(kernel.operation.empty());
    EXPECT_FALSE(kernel.kind.empty());
    EXPECT_GE(kernel.least, 0);
    if (kernel.kind == "products") products += kernel.operations;
    if (!kernel.region.empty()) {
      ++fusions;
      EXPECT_GT(parse_graph(kernel.region).nodes.size(), 0u);
    }
    seconds += kernel.seconds;
  }
  EXPECT_GT(fusions, 0u);
  // The products of a layer alone: 16 tokens, four of 16 x 16 and two of 16 x 24, forward and twice backward.
  EXPECT_GE(products, 2 * 3 * 2.0 * 16 * (4 * 16 * 16 + 2 * 16 * 24));
  EXPECT_GT(seconds, 0);
  EXPECT_DOUBLE_EQ(seconds, e.kernel_seconds);
}

TEST(Explanation, MapsTheArena) {
  const Explanation& e = training();
  ASSERT_EQ(e.live.size(), e.kernels.size());
  EXPECT_GT(e.arena_bytes, 0);
  for (const Explanation::Value& value : e.values) {
    EXPECT_GE(value.offset, 0);
    EXPECT_LE(value.offset + value.bytes, e.arena_bytes);
    EXPECT_LE(value.first, value.last);
  }
  for (const int64_t live : e.live) EXPECT_LE(live, e.live_maximum);
  EXPECT_GT(e.donated_inputs, 0u);
}

TEST(Explanation, MeasuresTheLimits) {
  const Limits& limits = forward().limits;
  ASSERT_FALSE(limits.products.empty());
  EXPECT_EQ(limits.products[0].dtype, DType::kFloat32);
  EXPECT_GT(limits.products[0].rate, 1e6);
  EXPECT_GT(limits.bandwidth, 1e6);
}

TEST(Limits, GrowWithWhatWasReached) {
  Limits limits{{{DType::kFloat32, 100}, {DType::kBFloat16, 400}}, 10};
  limits.raise(DType::kFloat32, 90);
  EXPECT_EQ(limits.products_of(DType::kFloat32), 100);
  limits.raise(DType::kFloat32, 120);
  EXPECT_EQ(limits.products_of(DType::kFloat32), 120);
  limits.raise(DType::kFloat16, 150);  // was not measured: it counts as f32
  EXPECT_EQ(limits.products_of(DType::kFloat16), 150);
  EXPECT_EQ(limits.products_of(DType::kBFloat16), 400);
}

TEST(Explanation, NoKernelIsBeyondItsLimit) {
  for (const Explanation::Kernel& kernel : forward().kernels) EXPECT_LE(kernel.least, kernel.seconds) << kernel.values;
}

TEST(Limits, AreThoseOfWhatTakesLonger) {
  const Limits limits{{{DType::kFloat32, 100}, {DType::kBFloat16, 400}}, 10};
  EXPECT_DOUBLE_EQ(limits.seconds_of(1000, 10, DType::kFloat32), 10);
  EXPECT_DOUBLE_EQ(limits.seconds_of(1000, 10, DType::kBFloat16), 2.5);
  EXPECT_DOUBLE_EQ(limits.seconds_of(1000, 1000, DType::kFloat64), 100);
}

TEST(Explanation, PrintsTables) {
  const std::string text = explanation_table(training(), 5);
  for (const char* word : {"device: ", "kernels ", "limits measured here", "PASS", "trace", "KIND", "products",
                           "OPERATION", "LIMIT/TIME", "arena", "fullest at node", "and "})
    EXPECT_NE(text.find(word), std::string::npos) << word;
}

TEST(Explanation, BecomesJson) {
  const Json json = parse_json(dump_json(explanation_json(training())), "explanation");
  EXPECT_EQ(json["version"], 1);
  for (const char* field : {"model", "model_type", "task", "dtype", "device", "device_notes", "mode"})
    EXPECT_TRUE(json[field].is_string()) << field;
  for (const char* field : {"run_seconds", "kernel_seconds", "compile_seconds", "samples", "threads", "programs"})
    EXPECT_TRUE(json[field].is_number()) << field;
  EXPECT_GT(json["limits"]["bandwidth"].get<double>(), 0);
  EXPECT_GT(json["limits"]["products"]["f32"].get<double>(), 0);
  EXPECT_EQ(json["kernels"].size(), training().kernels.size());
  for (const char* field : {"node", "values", "operation", "kind", "kernel", "scope", "types", "region", "operations",
                            "bytes", "seconds", "limit_seconds", "limited_by"})
    EXPECT_TRUE(json["kernels"][0].contains(field)) << field;
  for (const char* field : {"name", "seconds", "nodes", "operations", "graph"})
    EXPECT_TRUE(json["passes"][0].contains(field)) << field;
  EXPECT_EQ(json["memory"]["live"].size(), json["kernels"].size());
  EXPECT_EQ(json["memory"]["values"].size(), training().values.size());
  EXPECT_FALSE(json["timeline"].empty());
}

TEST(Explanation, BecomesAPageThatNeedsNoOther) {
  const std::string page = explanation_page(training());
  EXPECT_TRUE(page.starts_with("<!DOCTYPE html>"));
  EXPECT_EQ(count_of(page, "<svg "), 4u);
  EXPECT_EQ(count_of(page, "</svg>"), 4u);
  for (const char* outside : {"http:", "https:", "src=", "href=", "url(", "@import", "<script", "<link"})
    EXPECT_EQ(page.find(outside), page.npos) << outside;
  // What is under the pointer says what it is; and no number failed.
  EXPECT_GT(count_of(page, "<title>"), training().kernels.size());
  EXPECT_FALSE(std::regex_search(page, std::regex("(x|y|width|height|cx|cy|r)=\"-?(nan|inf)")));
  for (const char* tag : {"table", "details", "pre", "svg", "title", "tr", "td"})
    EXPECT_EQ(count_of(page, "<" + std::string(tag) + ">") + count_of(page, "<" + std::string(tag) + " "),
              count_of(page, "</" + std::string(tag) + ">"))
        << tag;
}

TEST(Explanation, EscapesWhatComesFromOutside) {
  Explanation e = forward();
  e.model = "<script>alert(\"1\") & more";
  EXPECT_EQ(explanation_page(e).find("<script"), std::string::npos);
}

TEST(Explanation, RefusesNoRuns) {
  const TinyClassifier model;
  BenchOptions options;
  options.model = model.path();
  EXPECT_NE(message_of([&] { explain(options, 0); }).find("--runs"), std::string::npos);
}

}  // namespace
}  // namespace transom
