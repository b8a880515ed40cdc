// SPDX-License-Identifier: Apache-2.0
// Checkpoints of sharded runs: resumed in other layouts, put together, damaged, and written while processes are killed.
#include <gtest/gtest.h>

#include <random>

#include "base/error.h"
#include "files/checkpoint/sharded_safetensors.h"
#include "models/sharding/same_checkpoints.h"
#include "support/ranks.h"
#include "support/temporary_folder.h"
#include "work/train/files/checkpoints.h"

namespace transom {
namespace {

using test::has_library;
using test::Outcome;
using Words = std::vector<std::string>;

Words joined(Words words, const Words& more) {
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

class ShardedCheckpoint : public testing::Test {
 protected:
  void SetUp() override {
    if (!has_library("transom_gloo.so")) GTEST_SKIP() << "built without gloo";
    test::save_model_and_rows(folder_, 22);
  }
  std::vector<Outcome> try_to_run(const std::string& output, int ranks, int batch, const Words& more) const {
    return test::run_ranks(test::training_words(folder_, "cpu", output, batch, more), folder_, ranks);
  }
  Outcome run(const std::string& output, int ranks, int batch, const Words& more) const {
    const std::vector<Outcome> outcomes = try_to_run(output, ranks, batch, more);
    for (const Outcome& outcome : outcomes) EXPECT_EQ(outcome.status, 0) << outcome.error;
    return outcomes[0];
  }
  static double last_loss(const Outcome& outcome) {
    const std::vector<Json> steps = test::steps_of(outcome.output);
    return steps.empty() ? 0.0 : steps.back().at("loss").get<double>();
  }
  bool same(const char* left, const char* right) const {
    return read_file(folder_ / left) == read_file(folder_ / right);
  }

  const Words base_{"--max_steps", "6", "--save_strategy", "steps", "--save_steps", "3"};
  const Words parts_{"--fsdp", "full_shard", "--tp_size", "2"};
  test::TemporaryFolder folder_;
};

TEST_F(ShardedCheckpoint, IsResumedInOtherLayouts) {
  const Outcome unbroken = run("one", 1, 6, base_);
  run("all", 4, 3, joined(base_, parts_));
  const fs::path checkpoint = folder_ / "all" / "checkpoint-3";
  EXPECT_TRUE(fs::exists(checkpoint / "manifest.json"));
  EXPECT_TRUE(fs::exists(checkpoint / "shard-00004-model-00001-of-00001.safetensors"));
  EXPECT_FALSE(fs::exists(checkpoint / "model.safetensors"));
  const Words resumed = joined(base_, {"--resume_from_checkpoint", checkpoint.string()});
  // The same layout has the same bits.
  run("again", 4, 3, joined(resumed, parts_));
  EXPECT_TRUE(same("all/model.safetensors", "again/model.safetensors"));
  EXPECT_NEAR(last_loss(run("alone", 1, 6, resumed)), last_loss(unbroken), 1e-5);
  EXPECT_NEAR(last_loss(run("three", 3, 2, joined(resumed, {"--zero_stage", "3"}))), last_loss(unbroken), 1e-5);
  EXPECT_NEAR(last_loss(run("columns", 2, 6, joined(resumed, {"--tp_size", "2"}))), last_loss(unbroken), 1e-5);
}

// Each stage of a pipeline writes its layers; a whole checkpoint is dealt to the stages.
TEST_F(ShardedCheckpoint, OfStagesIsResumedInOtherLayouts) {
  const Words stages{"--pp_size", "2"};
  const Outcome unbroken = run("one", 1, 6, base_);
  run("all", 2, 6, joined(base_, stages));
  const auto resumed = [&](const char* from) {
    return joined(base_, {"--resume_from_checkpoint", (folder_ / from / "checkpoint-3").string()});
  };
  run("again", 2, 6, joined(resumed("all"), stages));
  EXPECT_TRUE(same("all/model.safetensors", "again/model.safetensors"));
  EXPECT_NEAR(last_loss(run("alone", 1, 6, resumed("all"))), last_loss(unbroken), 1e-5);
  EXPECT_NEAR(last_loss(run("shards", 2, 3, joined(resumed("all"), {"--zero_stage", "3"}))), last_loss(unbroken), 1e-5);
  EXPECT_NEAR(last_loss(run("dealt", 2, 6, joined(resumed("one"), stages))), last_loss(unbroken), 1e-5);
}

// Eight processes, cut along three axes, and then four, one, and eight along three other axes.
TEST_F(ShardedCheckpoint, OfThreeAxesIsResumedInOtherShapes) {
  const Outcome unbroken = run("one", 1, 6, base_);
  const Outcome all = run("all", 8, 3, joined(base_, {"--pp_size", "2", "--tp_size", "2", "--zero_stage", "1"}));
  test::expect_same_curve(unbroken.output, all.output, 2e-6);
  const std::vector<Json> whole = test::steps_of(unbroken.output);
  const Words resumed = joined(base_, {"--resume_from_checkpoint", (folder_ / "all" / "checkpoint-3").string()});
  const auto expect_resumed = [&](const Outcome& outcome, const char* name) {
    expect_the_rest(whole, test::steps_of(outcome.output), name);
  };
  expect_resumed(run("four", 4, 3, joined(resumed, {"--fsdp", "full_shard", "--tp_size", "2"})), "four: ");
  expect_resumed(run("alone", 1, 6, resumed), "alone: ");
  const Words others{"--fsdp", "full_shard", "--cp_size", "2", "--tp_size", "2"};
  expect_resumed(run("eight", 8, 3, joined(resumed, others)), "eight: ");
}

TEST_F(ShardedCheckpoint, OfOneProcessIsResumedByMany) {
  const Outcome unbroken = run("one", 1, 6, base_);
  const Words resumed = joined(base_, {"--resume_from_checkpoint", (folder_ / "one" / "checkpoint-3").string()});
  EXPECT_NEAR(last_loss(run("many", 2, 3, joined(resumed, {"--zero_stage", "1"}))), last_loss(unbroken), 1e-5);
}

TEST_F(ShardedCheckpoint, IsMerged) {
  run("all", 3, 2, joined(base_, {"--zero_stage", "3"}));
  const std::string whole = (folder_ / "merged").string();
  const Outcome merged =
      test::Program({"merge", (folder_ / "all" / "checkpoint-6").string(), whole}, folder_.path()).wait();
  EXPECT_EQ(merged.status, 0) << merged.error;
  EXPECT_TRUE(same("merged/config.json", "all/config.json"));
  expect_same_weights(folder_ / "merged" / "model.safetensors", folder_ / "all" / "model.safetensors");
  // What is damaged is named.
  const fs::path shard = folder_ / "all" / "checkpoint-6" / "shard-00002-model-00001-of-00001.safetensors";
  std::string bytes = read_file(shard);
  bytes.back() = static_cast<char>(bytes.back() ^ 1);
  write_file(shard, bytes);
  const Outcome damaged =
      test::Program({"merge", (folder_ / "all" / "checkpoint-6").string(), whole}, folder_.path()).wait();
  EXPECT_EQ(damaged.status, 1);
  EXPECT_NE(damaged.error.find("the file is damaged"), std::string::npos) << damaged.error;
}

TEST_F(ShardedCheckpoint, IsWholeWhereThatIsAskedFor) {
  run("all", 2, 3,
      joined(base_, {"--fsdp", "full_shard", "--fsdp_config", R"({"state_dict_type": "FULL_STATE_DICT"})"}));
  EXPECT_TRUE(fs::exists(folder_ / "all" / "checkpoint-6" / "model.safetensors"));
  EXPECT_FALSE(fs::exists(folder_ / "all" / "checkpoint-6" / "manifest.json"));
}

// Another run's shard, or one that is cut off, is no checkpoint to go on from.
TEST_F(ShardedCheckpoint, ThatLacksAFileIsPassedBy) {
  run("all", 2, 3, joined(base_, {"--zero_stage", "3"}));
  ASSERT_EQ(last_whole_checkpoint(folder_ / "all"), "checkpoint-6");
  const fs::path shard = folder_ / "all" / "checkpoint-6" / "shard-00002-optimizer-00001-of-00001.safetensors";
  fs::resize_file(shard, fs::file_size(shard) - 1);
  EXPECT_EQ(last_whole_checkpoint(folder_ / "all"), "checkpoint-3");
  run("all", 2, 3, joined(base_, {"--zero_stage", "3", "--resume_from_checkpoint", "true"}));
  EXPECT_EQ(last_whole_checkpoint(folder_ / "all"), "checkpoint-6");
}

// Each update is saved. Processes are killed at any moment; the others end, and what is left is resumed until the run
// is done, with the bits of a run that nobody killed. TRANSOM_KILLS: how many kills (default 2).
TEST_F(ShardedCheckpoint, SurvivesKills) {
  const char* wished = std::getenv("TRANSOM_KILLS");
  const int kills = wished ? std::atoi(wished) : 2;
  const Words words{"--max_steps",  "12", "--save_strategy",    "steps", "--save_steps",  "1",
                    "--zero_stage", "3",  "--save_total_limit", "3",     "--ddp_timeout", "60"};
  run("whole", 2, 3, words);
  std::mt19937 random(7);
  for (int i = 0; i < kills; ++i) {
    Words more = words;
    // What the killed run left would be taken for a save of this one.
    if (fs::exists(folder_ / "killed")) remove_unfinished_checkpoints(folder_ / "killed");
    if (last_whole_checkpoint(folder_ / "killed")) more = joined(more, {"--resume_from_checkpoint", "true"});
    const auto programs = test::start_ranks(test::training_words(folder_, "cpu", "killed", 3, more), folder_, 2);
    // While something is written, as often as not.
    const fs::path folder = folder_ / "killed";
    const auto is_writing = [&] {
      std::error_code none;
      for (const auto& entry : fs::directory_iterator(folder, none))
        if (entry.path().filename().string().starts_with(kUnfinishedPrefix)) return true;
      return false;
    };
    while (programs[0]->is_running() && !is_writing()) std::this_thread::sleep_for(std::chrono::milliseconds(2));
    std::this_thread::sleep_for(std::chrono::microseconds(random() % 30'000));
    programs[random() % 2]->kill();
    for (const auto& program : programs) program->wait();
    for (const std::string& name : checkpoints_in(folder))
      EXPECT_TRUE(fs::exists(folder / name / "manifest.json")) << name;
    if (last_whole_checkpoint(folder) == "checkpoint-12") fs::remove_all(folder);
  }
  Words more = words;
  if (last_whole_checkpoint(folder_ / "killed")) more = joined(more, {"--resume_from_checkpoint", "true"});
  run("killed", 2, 3, more);
  EXPECT_TRUE(same("whole/model.safetensors", "killed/model.safetensors"));
  for (int rank = 1; rank <= 2; ++rank)
    for (const char* set : {"model", "optimizer"}) {
      const std::string name = fmt::format("checkpoint-12/shard-{:05}-{}-00001-of-00001.safetensors", rank, set);
      EXPECT_TRUE(same(("whole/" + name).c_str(), ("killed/" + name).c_str())) << name;
    }
}

}  // namespace
}  // namespace transom
