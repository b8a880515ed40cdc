// SPDX-License-Identifier: Apache-2.0
// Checkpoints of runs in which each process has heads of joined layers: put together, and resumed in other layouts.
#include <gtest/gtest.h>

#include "models/sharding/model_families.h"
#include "models/sharding/same_checkpoints.h"
#include "support/ranks.h"
#include "support/temporary_folder.h"

namespace transom {
namespace {

using Words = std::vector<std::string>;

constexpr int64_t kRowsOfJoined = 6;  // of an update

class JoinedCheckpoint : public testing::TestWithParam<ModelFamily> {
 protected:
  void SetUp() override {
    if (!test::has_library("transom_gloo.so")) GTEST_SKIP() << "built without gloo";
    set_device("cpu");
    const ModelFamily& family = GetParam();
    Model::from_config(family.config, {.task = family.task, .seed = 3})->save_pretrained((folder_ / "model").string());
    write_file(folder_ / "rows.jsonl", layout_of(family, 1, 1, {}).rows);
  }
  std::vector<Json> run(const std::string& output, int ranks, int64_t row_parts, const Words& more) const {
    Words words{
        "--task",          GetParam().task, "--max_steps",  "6", "--max_grad_norm", "0.5", "--logging_steps", "1",
        "--save_strategy", "steps",         "--save_steps", "3", "--ddp_timeout",   "300"};
    words.insert(words.end(), more.begin(), more.end());
    const auto batch = static_cast<int>(kRowsOfJoined / row_parts);
    const auto outcomes = test::run_ranks(test::training_words(folder_, "cpu", output, batch, words), folder_, ranks);
    for (const test::Outcome& outcome : outcomes) EXPECT_EQ(outcome.status, 0) << outcome.error;
    return test::steps_of(outcomes[0].output);
  }
  test::TemporaryFolder folder_;
};

TEST_P(JoinedCheckpoint, IsMergedAndResumedInOtherLayouts) {
  const std::vector<Json> whole = run("one", 1, 1, {});
  ASSERT_EQ(whole.size(), 6u);
  run("all", 4, 2, {"--fsdp", "full_shard", "--tp_size", "2"});
  const std::string merged = (folder_ / "merged").string();
  const test::Outcome outcome =
      test::Program({"merge", (folder_ / "all" / "checkpoint-6").string(), merged}, folder_.path()).wait();
  ASSERT_EQ(outcome.status, 0) << outcome.error;
  expect_same_weights(folder_ / "merged" / "model.safetensors", folder_ / "all" / "model.safetensors");
  const auto expect_resumed = [&](const char* output, int ranks, int64_t row_parts, Words more) {
    more.insert(more.end(), {"--resume_from_checkpoint", (folder_ / "all" / "checkpoint-3").string()});
    expect_the_rest(whole, run(output, ranks, row_parts, more), output);
  };
  expect_resumed("alone", 1, 1, {});
  expect_resumed("three", 3, 1, {"--tp_size", "3"});
  expect_resumed("stretches", 2, 1, {"--tp_size", "2", "--sequence_parallel", "true"});
  expect_resumed("stages", 4, 1, {"--pp_size", "2", "--tp_size", "2"});
}

INSTANTIATE_TEST_SUITE_P(Families, JoinedCheckpoint, testing::Values(kGpt2Family, kPhi3Family, kGptBigCodeFamily),
                         [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace transom
