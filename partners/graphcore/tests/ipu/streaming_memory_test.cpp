// SPDX-License-Identifier: Apache-2.0
// optimizer_state_offchip: the state of the optimizer lies beside the tiles.
#include <gtest/gtest.h>

#include "ipu_options.h"
#include "testing/ranks.h"

namespace transom {
namespace {

using namespace test;

using IpuStreamingMemory = test::IpuOptions;

TEST_F(IpuStreamingMemory, StateBesideTheTilesGivesTheSameBits) {
  save_small_model();
  const Outcome here = train("here", 8);
  ASSERT_EQ(here.status, 0) << here.error;
  configure(R"({"optimizer_state_offchip": true})");
  const Outcome beside = train("beside", 8);
  ASSERT_EQ(beside.status, 0) << beside.error;
  EXPECT_EQ(here.output, beside.output);
  EXPECT_EQ(weights("here"), weights("beside"));
  const Outcome other = train("other", 8, {"--optim", "sgd", "--optim_args", "momentum=0.9"});
  ASSERT_EQ(other.status, 0) << other.error;
}

TEST_F(IpuStreamingMemory, StateBesideTheTilesFreesThem) {
  fs::create_directories(folder_ / "bert");
  write_file(folder_ / "bert" / "config.json", R"({"model_type": "bert",
    "architectures": ["BertForSequenceClassification"], "vocab_size": 8000, "hidden_size": 256, "num_hidden_layers": 2,
    "num_attention_heads": 4, "intermediate_size": 1024, "max_position_embeddings": 64})");
  const std::vector<std::string> words{"--task", "train", "--sequence_length", "32"};
  const Json here = machine("bert", words);
  configure(R"({"optimizer_state_offchip": true})");
  const Json beside = machine("bert", words);
  const auto always_live = [](const Json& machine) {
    int64_t bytes = 0;
    for (const Json& tile : machine["tiles"]["always_live"]) bytes += tile.get<int64_t>();
    return bytes;
  };
  // Two numbers of f32 for each of 3.7 million weights.
  EXPECT_NEAR(static_cast<double>(always_live(here) - always_live(beside)), 2 * 4 * 3'711'234.0, 3e5);
  EXPECT_LT(beside["fullest_tile"].get<int64_t>(), here["fullest_tile"].get<int64_t>());
  EXPECT_GT(beside["cycles"]["host"].get<int64_t>(), here["cycles"]["host"].get<int64_t>());
}

}  // namespace
}  // namespace transom
