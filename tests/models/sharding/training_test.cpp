// SPDX-License-Identifier: Apache-2.0
// transom train with what it trains spread over processes: the curve of one process with the whole batch.
#include <gtest/gtest.h>

#include "support/ranks.h"
#include "support/temporary_folder.h"

namespace transom {
namespace {

using test::has_library;
using test::Outcome;

struct TrainingCase {
  const char* name;
  int ranks, batch;  // of one process, so that all have 6 rows an update
  std::vector<std::string> words;
  const char* accumulation = "2";
};

class ShardedTraining : public testing::TestWithParam<TrainingCase> {
 protected:
  void SetUp() override {
    if (!has_library("transom_gloo.so")) GTEST_SKIP() << "built without gloo";
    // 22 rows: the last batch of an epoch has four, dealt unevenly.
    test::save_model_and_rows(folder_, 22);
  }
  Outcome run(const std::string& output, int ranks, int batch, std::vector<std::string> more) const {
    const std::vector<Outcome> outcomes =
        test::run_ranks(test::training_words(folder_, "cpu", output, batch, more), folder_, ranks);
    for (const Outcome& outcome : outcomes) EXPECT_EQ(outcome.status, 0) << outcome.error;
    return outcomes[0];
  }

  test::TemporaryFolder folder_;
};

TEST_P(ShardedTraining, HasTheCurveOfOneProcess) {
  const TrainingCase& test = GetParam();
  std::vector<std::string> more{"--max_steps",    "10", "--max_grad_norm", "0.5", "--gradient_accumulation_steps",
                                test.accumulation};
  const Outcome one = run("one", 1, 6, more);
  more.insert(more.end(), test.words.begin(), test.words.end());
  const Outcome all = run("all", test.ranks, test.batch, more);
  test::expect_same_curve(one.output, all.output, 2e-6);
  EXPECT_TRUE(fs::exists(folder_ / "all" / "model.safetensors"));
}

INSTANTIATE_TEST_SUITE_P(
    Layouts, ShardedTraining,
    testing::Values(
        TrainingCase{"Zero1", 2, 3, {"--zero_stage", "1"}}, TrainingCase{"Zero2", 3, 2, {"--zero_stage", "2"}},
        TrainingCase{"Zero3", 3, 2, {"--zero_stage", "3"}}, TrainingCase{"Gathered", 2, 3, {"--fsdp", "shard_grad_op"}},
        TrainingCase{"ShardsAndTensor", 4, 3, {"--fsdp", "full_shard", "--tp_size", "2"}},
        TrainingCase{"Tensor", 2, 6, {"--tp_size", "2"}},
        TrainingCase{"TensorAndRows", 4, 3, {"--tp_size", "2", "--parameter_check_steps", "1"}},
        TrainingCase{"Stages", 2, 6, {"--pp_size", "2"}},
        TrainingCase{"StagesInSteadyState", 2, 6, {"--pp_size", "2"}, "5"},
        TrainingCase{"StagesOfGPipe", 3, 6, {"--pp_size", "3", "--pipeline_schedule", "gpipe"}},
        TrainingCase{"Places", 2, 6, {"--cp_size", "2"}},
        TrainingCase{"PlacesByKeys", 2, 6, {"--cp_size", "2", "--cp_strategy", "allgather"}},
        TrainingCase{"PlacesInRing", 2, 6, {"--cp_size", "2", "--cp_strategy", "ring"}},
        TrainingCase{"PlacesAndTensor", 4, 6, {"--cp_size", "2", "--tp_size", "2"}},
        TrainingCase{"PlacesAndShards", 4, 3, {"--cp_size", "2", "--fsdp", "full_shard"}},
        TrainingCase{
            "StagesInTurn", 2, 6, {"--pp_size", "2", "--pipeline_schedule", "interleaved", "--pp_chunks", "2"}, "4"},
        TrainingCase{"StagesInTurnAndRows",
                     4,
                     3,
                     {"--pp_size", "2", "--pipeline_schedule", "interleaved", "--pp_chunks", "2", "--zero_stage", "2"},
                     "3"},
        TrainingCase{"StagesAndRows", 4, 3, {"--pp_size", "2", "--zero_stage", "1", "--parameter_check_steps", "2"}},
        TrainingCase{"StagesAndTensor", 4, 6, {"--pp_size", "2", "--tp_size", "2"}},
        TrainingCase{"OfNine", 9, 2, {"--fsdp", "full_shard", "--tp_size", "3"}},
        TrainingCase{"OfTwelve", 12, 2, {"--zero_stage", "2", "--cp_size", "2", "--tp_size", "2"}},
        TrainingCase{"OfSixteen", 16, 3, {"--pp_size", "2", "--cp_size", "2", "--tp_size", "2", "--zero_stage", "1"}}),
    [](const auto& info) { return info.param.name; });

// Each process reads its own parts, so that all must read of the same.
TEST(ShardedWeights, OfAnotherModelAreRefused) {
  if (!has_library("transom_gloo.so")) GTEST_SKIP() << "built without gloo";
  const test::TemporaryFolder folder;
  test::save_model_and_rows(folder, 6);
  Json config = parse_json(kSmallBert, "the small model");
  config["hidden_dropout_prob"] = config["attention_probs_dropout_prob"] = 0;
  Model::from_config(dump_json(config), {.seed = 4})->save_pretrained((folder / "other").string());
  const uint16_t port = test::free_port();
  std::vector<std::unique_ptr<test::Program>> programs;
  for (int rank = 0; rank < 2; ++rank) {
    std::vector<std::string> words =
        test::training_words(folder, "cpu", "out", 3, {"--fsdp", "full_shard", "--max_steps", "2"});
    if (rank == 1)
      for (std::string& word : words)
        if (word == (folder / "model").string()) word = (folder / "other").string();
    programs.push_back(test::start_rank(words, folder, rank, 2, port));
  }
  std::string said;
  for (const auto& program : programs) {
    const Outcome outcome = program->wait();
    EXPECT_NE(outcome.status, 0);
    said += outcome.error;
  }
  EXPECT_NE(said.find("the processes begin with different weights"), said.npos) << said;
}

}  // namespace
}  // namespace transom
