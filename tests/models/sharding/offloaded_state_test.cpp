// SPDX-License-Identifier: Apache-2.0
// transom train with the optimizer's state in host memory: the bits of the run that keeps it on the device, with one
// process and several, and a checkpoint that either of them resumes.
#include <gtest/gtest.h>

#include "support/ranks.h"
#include "support/temporary_folder.h"

namespace transom {
namespace {

using test::Outcome;

struct OffloadCase {
  const char* name;
  int ranks, batch;
  std::vector<std::string> words, offload;
};

class OffloadedState : public testing::TestWithParam<OffloadCase> {
 protected:
  void SetUp() override {
    if (!test::has_library("transom_gloo.so")) GTEST_SKIP() << "built without gloo";
    test::save_model_and_rows(folder_, 22);
  }
  Outcome run(const std::string& output, const std::vector<std::string>& more) const {
    const OffloadCase& test = GetParam();
    std::vector<std::string> words{"--max_grad_norm", "0.5", "--gradient_accumulation_steps", "2",
                                   "--save_steps",    "2",   "--lr_scheduler_type",           "constant",
                                   "--max_steps",     "4"};
    words.insert(words.end(), test.words.begin(), test.words.end());
    words.insert(words.end(), more.begin(), more.end());
    std::vector<Outcome> outcomes =
        test::run_ranks(test::training_words(folder_, "cpu", output, test.batch, words), folder_, test.ranks);
    for (const Outcome& outcome : outcomes) EXPECT_EQ(outcome.status, 0) << outcome.error;
    return outcomes[0];
  }
  // All that a checkpoint holds of weights and states.
  std::string values(const std::string& output) const {
    std::vector<fs::path> files;
    for (const auto& entry : fs::directory_iterator(folder_ / output / "checkpoint-4"))
      if (entry.path().extension() == ".safetensors") files.push_back(entry.path());
    std::sort(files.begin(), files.end());
    std::string all = read_file(folder_ / output / "model.safetensors");
    for (const fs::path& file : files) all += file.filename().string() + read_file(file);
    EXPECT_GT(files.size(), 1U);
    return all;
  }
  test::TemporaryFolder folder_;
};

TEST_P(OffloadedState, HasTheBitsOfTheStateOnTheDevice) {
  const Outcome there = run("there", {}), offloaded = run("offloaded", GetParam().offload);
  test::expect_same_curve(there.output, offloaded.output, 0);
  const std::string whole = values("there");
  EXPECT_TRUE(values("offloaded") == whole);
  // Half of the run with the state in host memory, half without, and the other way round.
  std::vector<std::string> resume{"--resume_from_checkpoint", (folder_ / "offloaded" / "checkpoint-2").string()};
  run("second", resume);
  EXPECT_TRUE(values("second") == whole);
  resume.back() = (folder_ / "there" / "checkpoint-2").string();
  resume.insert(resume.end(), GetParam().offload.begin(), GetParam().offload.end());
  run("third", resume);
  EXPECT_TRUE(values("third") == whole);
}

const std::vector<std::string> kOffload{"--offload_optimizer_device", "cpu"};

INSTANTIATE_TEST_SUITE_P(
    Layouts, OffloadedState,
    testing::Values(OffloadCase{"OneProcess", 1, 6, {}, kOffload}, OffloadCase{"Rows", 2, 3, {}, kOffload},
                    OffloadCase{"Zero1", 2, 3, {"--zero_stage", "1"}, kOffload},
                    OffloadCase{"Zero2", 2, 3, {"--zero_stage", "2"}, kOffload},
                    OffloadCase{"Shards", 3, 2, {"--fsdp", "full_shard"}, {"--fsdp", "full_shard offload"}},
                    OffloadCase{"DeepSpeed",
                                2,
                                3,
                                {"--deepspeed", R"({"zero_optimization": {"stage": 3}})"},
                                {"--deepspeed",
                                 R"({"zero_optimization": {"stage": 3, "offload_optimizer": {"device": "cpu"}}})"}},
                    OffloadCase{"WholeCheckpoints",
                                2,
                                3,
                                {"--fsdp", "full_shard", "--fsdp_config", R"({"state_dict_type": "FULL_STATE_DICT"})"},
                                {"--fsdp_config", R"({"state_dict_type": "FULL_STATE_DICT", "cpu_offload": true})"}},
                    OffloadCase{"ShardsAndTensor", 4, 3, {"--fsdp", "full_shard", "--tp_size", "2"}, kOffload},
                    OffloadCase{"StagesAndRows", 4, 3, {"--pp_size", "2", "--zero_stage", "2"}, kOffload}),
    [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace transom
