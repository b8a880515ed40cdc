// SPDX-License-Identifier: Apache-2.0
#include "tools/explain/layout.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "base/json/json.h"
#include "support/small_model.h"
#include "support/temporary_folder.h"

namespace transom {
namespace {

class LayoutExplanations : public testing::Test {
 protected:
  void SetUp() override { save_small_model(folder_.path()); }
  LayoutExplanation explained(const std::string& layout, const std::string& task = "train") const {
    BenchOptions options;
    options.model = folder_.path().string();
    options.task = task;
    options.batch_size = 8;
    options.sequence_length = 16;
    return explain_layout(options, parse_layout(layout));
  }
  static int64_t sum(const LayoutExplanation& explanation, int64_t LayoutExplanation::Memory::*part) {
    int64_t total = 0;
    for (const LayoutExplanation::Memory& memory : explanation.memory) total += memory.*part;
    return total;
  }

  test::TemporaryFolder folder_;
};

TEST_F(LayoutExplanations, CountWhatEachRankHas) {
  using Memory = LayoutExplanation::Memory;
  const LayoutExplanation alone = explained("dp=1");
  EXPECT_TRUE(alone.exchanges.empty());
  const int64_t bytes = alone.memory[0].parameters;
  EXPECT_EQ(alone.memory[0].optimizer, 2 * bytes);
  // Copies: each has all of it, and gradients are summed.
  const LayoutExplanation copies = explained("dp=4");
  EXPECT_EQ(sum(copies, &Memory::parameters), 4 * bytes);
  ASSERT_FALSE(copies.exchanges.empty());
  for (const LayoutExplanation::Exchange& exchange : copies.exchanges) EXPECT_EQ(exchange.axes, "dp");
  // Parts: together they are the model, but for what has fewer rows than there are processes.
  const LayoutExplanation parts = explained("fsdp=4");
  EXPECT_EQ(parts.zero_stage, 3);
  EXPECT_GE(sum(parts, &Memory::parameters), bytes);
  EXPECT_LT(sum(parts, &Memory::parameters), bytes * 11 / 10);
  // Stage 1 cuts the optimizer's state alone.
  const LayoutExplanation states = explained("fsdp=2,zero=1");
  EXPECT_EQ(states.memory[1].parameters, bytes);
  EXPECT_EQ(states.memory[1].gradients, bytes);
  EXPECT_LT(states.memory[1].optimizer, bytes * 11 / 10);
  // Stages of a pipeline have what no other one has.
  const LayoutExplanation stages = explained("pp=2");
  EXPECT_EQ(stages.stages.size(), 2u);
  EXPECT_EQ(sum(stages, &Memory::parameters), bytes);
  EXPECT_NE(stages.memory[0].parameters, 0);
  EXPECT_NE(stages.memory[1].parameters, 0);
}

TEST_F(LayoutExplanations, SayWhatIsExchanged) {
  const LayoutExplanation columns = explained("tp=2", "forward");
  ASSERT_FALSE(columns.exchanges.empty());
  for (const LayoutExplanation::Exchange& exchange : columns.exchanges) {
    EXPECT_EQ(exchange.axes, "tp");
    EXPECT_GT(exchange.bytes, 0);
  }
  const Json json = layout_json(columns);
  EXPECT_EQ(json.at("ranks"), 2);
  EXPECT_EQ(json.at("parameters").size(), columns.parameters.size());
  EXPECT_EQ(json.at("memory").size(), 2u);
  EXPECT_NE(layout_table(columns).find("tp 2"), std::string::npos);
}

// Queries, keys and values in one matrix: each rank has heads of all three.
TEST_F(LayoutExplanations, NameWhatJoinedLayersJoin) {
  Model::from_config(R"({"model_type": "phi3", "architectures": ["Phi3ForCausalLM"], "vocab_size": 64,
    "hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2,
    "intermediate_size": 96, "max_position_embeddings": 32, "original_max_position_embeddings": 32, "pad_token_id": 0,
    "tie_word_embeddings": false})",
                     {.seed = 3})
      ->save_pretrained(folder_.path().string());
  const LayoutExplanation alone = explained("dp=1"), columns = explained("tp=2");
  for (const LayoutExplanation::Parameter& parameter : columns.parameters) {
    if (parameter.name.ends_with("qkv_proj.weight")) {
      EXPECT_EQ(parameter.placement, "tp cuts 0, which joins 64 + 32 + 32");
      EXPECT_EQ(parameter.state, parameter.placement);
    }
    if (parameter.name.ends_with("gate_up_proj.weight")) {
      EXPECT_EQ(parameter.placement, "tp cuts 0, which joins 96 + 96");
    }
  }
  // All but the norms is halved, and no weight travels.
  for (const LayoutExplanation::Memory& memory : columns.memory)
    EXPECT_NEAR(static_cast<double>(memory.total()), static_cast<double>(alone.memory[0].total()) / 2,
                static_cast<double>(alone.memory[0].total()) / 100);
  for (const LayoutExplanation::Exchange& exchange : columns.exchanges) EXPECT_NE(exchange.kind, "all_to_all");
}

TEST_F(LayoutExplanations, CountActivations) {
  const LayoutExplanation whole = explained("tp=2"), stretches = explained("tp=2,sp=1"), places = explained("cp=4"),
                          ring = explained("cp=4,ring=1");
  EXPECT_LT(stretches.activations, whole.activations * 9 / 10);
  EXPECT_NE(stretches.mesh.find("sequence parallel"), std::string::npos);
  const auto bytes = [](const LayoutExplanation& explanation, const char* kind) {
    int64_t total = 0;
    for (const LayoutExplanation::Exchange& exchange : explanation.exchanges)
      if (exchange.kind == kind) total += exchange.bytes;
    return total;
  };
  EXPECT_GT(bytes(stretches, "reduce_scatter"), bytes(whole, "reduce_scatter"));
  EXPECT_LT(bytes(stretches, "all_reduce"), bytes(whole, "all_reduce"));
  EXPECT_GT(bytes(ring, "collective_permute"), 0);
  EXPECT_EQ(bytes(places, "collective_permute"), 0);
}

TEST_F(LayoutExplanations, RefuseWhatIsNoLayout) {
  for (const char* text : {"", "dp", "dp=", "dp=0", "dp=2x", "zero=4", "zero=2", "dp=2,dp=4", "gp=2", "dp=2,,tp=2",
                           "dp=99999999999999999999", "dp=65536,tp=65536", "sp=1", "tp=2,sp=2", "ring=1"})
    EXPECT_THROW(parse_layout(text), Error) << text;
}

}  // namespace
}  // namespace transom
