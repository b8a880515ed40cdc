// SPDX-License-Identifier: Apache-2.0
// A model spread over eight cards of a server, in products of two and three ways: the curve of one card with the whole
// batch. See several_test.cpp for where the cards come from.
#include <gtest/gtest.h>

#include <cstdlib>

#include "testing/ranks.h"
#include "testing/temporary_folder.h"

namespace transom {
namespace {

struct CardLayout {
  const char* name;
  int row_parts;  // cards with rows of their own
  std::vector<std::string> words;
};

class ShardedCards : public testing::TestWithParam<CardLayout> {
 protected:
  static constexpr int kCardsOfLayout = 8, kRowsOfUpdate = 8;

  void SetUp() override {
    ::setenv("TRANSOM_SYNAPSE_DEVICES", std::to_string(kCardsOfLayout).c_str(), 1);
    const test::Outcome devices = test::Program({"devices"}, folder_).wait();
    if (devices.output.find("hpu:" + std::to_string(kCardsOfLayout - 1)) == std::string::npos)
      GTEST_SKIP() << "eight Gaudis are not here";
    ::setenv("TRANSOM_SYNAPSE_SERVER", folder_.path().filename().c_str(), 1);
    test::save_model_and_rows(folder_, 30);
  }
  void TearDown() override {
    for (const char* name : {"TRANSOM_SYNAPSE_DEVICES", "TRANSOM_SYNAPSE_SERVER"}) ::unsetenv(name);
  }
  test::TemporaryFolder folder_;
};

TEST_P(ShardedCards, LearnAsOneWithTheWholeBatch) {
  const std::vector<std::string> steps{
      "--max_steps", "5", "--gradient_accumulation_steps", "2", "--max_grad_norm", "0.5", "--save_strategy", "no"};
  const test::Outcome one =
      test::run_ranks(test::training_words(folder_, "hpu", "one", kRowsOfUpdate, steps), folder_, 1)[0];
  ASSERT_EQ(one.status, 0) << one.error;
  std::vector<std::string> more = steps;
  more.insert(more.end(), {"--ddp_backend", "hccl"});
  more.insert(more.end(), GetParam().words.begin(), GetParam().words.end());
  const std::vector<test::Outcome> all = test::run_ranks(
      test::training_words(folder_, "hpu", "all", kRowsOfUpdate / GetParam().row_parts, more), folder_, kCardsOfLayout);
  std::string said;
  for (const test::Outcome& outcome : all) said += outcome.error;
  for (const test::Outcome& outcome : all) ASSERT_EQ(outcome.status, 0) << said;
  test::expect_same_curve(one.output, all[0].output, 1e-5);
}

INSTANTIATE_TEST_SUITE_P(
    Layouts, ShardedCards,
    testing::Values(
        CardLayout{"Shards", 8, {"--fsdp", "full_shard"}},
        CardLayout{"ShardsAndTensor", 4, {"--fsdp", "full_shard", "--tp_size", "2"}},
        CardLayout{"TensorAndStages", 2, {"--tp_size", "2", "--pp_size", "2"}},
        CardLayout{"ShardsTensorAndStages", 2, {"--fsdp", "full_shard", "--tp_size", "2", "--pp_size", "2"}},
        CardLayout{"ShardsTensorAndPlaces", 2, {"--fsdp", "full_shard", "--tp_size", "2", "--cp_size", "2"}}),
    [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace transom
