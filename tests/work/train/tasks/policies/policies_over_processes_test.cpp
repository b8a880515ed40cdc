// SPDX-License-Identifier: Apache-2.0
// Policies on two to four processes have the curve of one process with the whole batch: with whole weights, and with
// weights that are spread, which are gathered while completions are written.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "support/golden.h"
#include "support/ranks.h"
#include "support/temporary_folder.h"

namespace transom {
namespace {

struct SpreadPolicy {
  const char* name;
  const char* task;
  int ranks, row_parts;
  std::vector<std::string> words;  // of both runs
  std::vector<std::string> spread;
  double tolerance = 2e-5;
};

class PoliciesOverProcesses : public testing::TestWithParam<SpreadPolicy> {
 protected:
  void SetUp() override {
    if (!test::has_library("transom_gloo.so")) GTEST_SKIP() << "built without gloo";
  }
  test::Outcome run(const std::string& output, int ranks, int row_parts, const std::vector<std::string>& more) const {
    const SpreadPolicy& test = GetParam();
    const fs::path golden = test::golden_folder();
    std::vector<std::string> words{"train",
                                   "--json",
                                   "--device",
                                   "cpu",
                                   "--task",
                                   test.task,
                                   "--model_name_or_path",
                                   (golden / "sft/qwen2/model").string(),
                                   "--train_file",
                                   (golden / "policies/rows/texts.jsonl").string(),
                                   "--output_dir",
                                   (folder_.path() / output).string(),
                                   "--per_device_train_batch_size",
                                   std::to_string(8 / row_parts),
                                   "--num_generations",
                                   "4",
                                   "--max_completion_length",
                                   "8",
                                   "--max_steps",
                                   "3",
                                   "--logging_steps",
                                   "1",
                                   "--learning_rate",
                                   "0.002",
                                   "--reward_funcs",
                                   "pattern:[aeiou]",
                                   "length:6",
                                   "--adam_epsilon",
                                   "1e-3",  // else what rounding leaves of a gradient of 0 moves weights
                                   "--save_strategy",
                                   "no"};
    words.insert(words.end(), test.words.begin(), test.words.end());
    words.insert(words.end(), more.begin(), more.end());
    const std::vector<test::Outcome> outcomes = test::run_ranks(words, folder_.path(), ranks);
    for (const test::Outcome& outcome : outcomes) EXPECT_EQ(outcome.status, 0) << outcome.error;
    return outcomes[0];
  }
  test::TemporaryFolder folder_;
};

TEST_P(PoliciesOverProcesses, HaveTheCurveOfOne) {
  const test::Outcome one = run("one", 1, 1, {}),
                      several = run("several", GetParam().ranks, GetParam().row_parts, GetParam().spread);
  const std::vector<Json> a = test::steps_of(one.output), b = test::steps_of(several.output);
  ASSERT_EQ(a.size(), 3u);
  ASSERT_EQ(b.size(), a.size());
  for (size_t i = 0; i < a.size(); ++i)
    for (const char* name : {"loss", "grad_norm"}) {
      const double expected = a[i].at(name).get<double>();
      // Losses are means around 0 of advantages of size 1.
      EXPECT_NEAR(b[i].at(name).get<double>(), expected, std::max(0x1p-22, GetParam().tolerance * std::abs(expected)))
          << name << " of step " << i + 1;
    }
}

// Learnt from twice, with a reference, and weights of rollouts that are compressed.
const std::vector<std::string> kAll = {"--beta", "0.1", "--num_iterations", "2", "--rollout_quantization", "nf4"};

INSTANTIATE_TEST_SUITE_P(
    Tasks, PoliciesOverProcesses,
    testing::Values(SpreadPolicy{"GrpoWholeOnFour", "grpo", 4, 4, {"--beta", "0.1"}, {}},
                    SpreadPolicy{"GrpoZero1", "grpo", 2, 2, {}, {"--zero_stage", "1"}},
                    SpreadPolicy{"GrpoZero2", "grpo", 2, 2, kAll, {"--zero_stage", "2"}},
                    SpreadPolicy{"GrpoZero3OnFour", "grpo", 4, 4, kAll, {"--zero_stage", "3"}},
                    SpreadPolicy{"GrpoFsdp", "grpo", 2, 2, {"--loss_type", "grpo"}, {"--fsdp", "full_shard"}},
                    SpreadPolicy{"GrpoTensorParallel", "grpo", 2, 1, {"--beta", "0.1"}, {"--tp_size", "2"}},
                    SpreadPolicy{"GrpoTensorAndZero", "grpo", 4, 2, {}, {"--tp_size", "2", "--zero_stage", "2"}},
                    SpreadPolicy{"GrpoZero3WithLora", "grpo", 2, 2, {"--use_peft"}, {"--zero_stage", "3"}},
                    SpreadPolicy{"RlooZero3", "rloo", 2, 2, {}, {"--zero_stage", "3"}},
                    SpreadPolicy{
                        "OnlineDpoZero2", "online-dpo", 2, 2, {"--num_generations", "2"}, {"--zero_stage", "2"}}),
    [](const auto& info) { return std::string(info.param.name); });

// Sequences that are cut, and layers that are passed on, are refused by name, before a completion is written.
TEST(PoliciesOverSequencesAndStages, AreRefused) {
  if (!test::has_library("transom_gloo.so")) GTEST_SKIP() << "built without gloo";
  const fs::path golden = test::golden_folder();
  const test::TemporaryFolder folder;
  for (const std::string flag : {"--cp_size", "--pp_size"}) {
    const std::vector<test::Outcome> outcomes = test::run_ranks({"train",
                                                                 "--device",
                                                                 "cpu",
                                                                 "--task",
                                                                 "grpo",
                                                                 "--model_name_or_path",
                                                                 (golden / "sft/qwen2/model").string(),
                                                                 "--train_file",
                                                                 (golden / "policies/rows/texts.jsonl").string(),
                                                                 "--output_dir",
                                                                 (folder.path() / flag.substr(2)).string(),
                                                                 "--per_device_train_batch_size",
                                                                 "4",
                                                                 "--num_generations",
                                                                 "4",
                                                                 "--max_completion_length",
                                                                 "8",
                                                                 "--max_steps",
                                                                 "1",
                                                                 "--reward_funcs",
                                                                 "length:6",
                                                                 "--save_strategy",
                                                                 "no",
                                                                 flag,
                                                                 "2"},
                                                                folder.path(), 2);
    bool is_named = false;
    for (const test::Outcome& outcome : outcomes) {
      EXPECT_NE(outcome.status, 0) << flag;
      is_named = is_named || outcome.error.find(flag) != std::string::npos;
    }
    EXPECT_TRUE(is_named) << outcomes[0].error;
  }
}

}  // namespace
}  // namespace transom
