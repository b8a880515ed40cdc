// SPDX-License-Identifier: Apache-2.0
// Sharded runs of which one process is killed at a random time, again and again: what is left is resumed, and comes to
// the bits of a run that nobody killed. More kills by hand: TRANSOM_RANDOM_KILLS=SEED,COUNT sharding_tests
// --gtest_filter=RandomKills.*
#include <gtest/gtest.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <random>

#include "support/ranks.h"
#include "support/temporary_folder.h"

namespace transom {
namespace {

struct KilledLayout {
  int ranks, batch;
  std::vector<std::string> words;
};

const std::vector<KilledLayout>& killed_layouts() {
  static const std::vector<KilledLayout> all{{2, 3, {"--zero_stage", "3"}},
                                             {2, 6, {"--tp_size", "2"}},
                                             {2, 6, {"--pp_size", "2"}},
                                             {3, 2, {"--fsdp", "full_shard"}},
                                             {4, 3, {"--tp_size", "2", "--zero_stage", "1"}}};
  return all;
}

class RandomKills : public testing::Test {
 protected:
  static constexpr const char* kSteps = "24";

  // A layout's run that nobody kills, and how long it took.
  struct Whole {
    std::string model, states;
    double seconds = 0;
  };

  void SetUp() override {
    if (!test::has_library("transom_gloo.so")) GTEST_SKIP() << "built without gloo";
    test::save_model_and_rows(folder_, 22);
  }
  std::vector<std::string> words(const KilledLayout& layout, const std::string& output) const {
    std::vector<std::string> more{"--max_steps",
                                  kSteps,
                                  "--save_steps",
                                  "3",
                                  "--save_total_limit",
                                  "2",
                                  "--ddp_timeout",
                                  "30",
                                  "--resume_from_checkpoint",
                                  "auto"};
    more.insert(more.end(), layout.words.begin(), layout.words.end());
    return test::training_words(folder_, "cpu", output, layout.batch, more);
  }
  std::string states(const fs::path& output) const {
    std::string all;
    for (int rank = 1; rank <= 4; ++rank) {
      const fs::path file = output / ("checkpoint-" + std::string(kSteps)) /
                            ("shard-0000" + std::to_string(rank) + "-optimizer-00001-of-00001.safetensors");
      if (fs::exists(file)) all += read_file(file);
    }
    return all;
  }
  Whole run_whole(const KilledLayout& layout, const std::string& output) const {
    const auto began = std::chrono::steady_clock::now();
    for (const test::Outcome& outcome : test::run_ranks(words(layout, output), folder_, layout.ranks))
      EXPECT_EQ(outcome.status, 0) << outcome.error;
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
    return {read_file(folder_ / output / "model.safetensors"), states(folder_ / output), seconds};
  }
  // Whether all ended by themselves, before the time of the kill had come.
  bool run_killed(const KilledLayout& layout, int rank, double seconds) {
    using Clock = std::chrono::steady_clock;
    const auto programs = test::start_ranks(words(layout, "killed"), folder_, layout.ranks);
    std::this_thread::sleep_for(std::chrono::duration<double>(seconds));
    const bool over = !programs[static_cast<size_t>(rank)]->is_running();
    programs[static_cast<size_t>(rank)]->kill();
    const Clock::time_point killed = Clock::now();
    std::string said;
    bool well = true;
    for (int other = 0; other < layout.ranks; ++other) {
      const test::Outcome outcome = programs[static_cast<size_t>(other)]->wait();
      well &= outcome.status == 0;
      if (other == rank) continue;
      said += outcome.error;
      // One whose work was done may have left in peace.
      EXPECT_TRUE(outcome.status == 1 || outcome.status == 0) << outcome.error;
    }
    const double took = std::chrono::duration<double>(Clock::now() - killed).count();
    if (over) return well;
    ++kills_;
    if (said.find("is lost: its process ended without a word") != std::string::npos) {
      // Beside it a run that had ended before may say that nothing was left to train.
      const size_t first = said.find("transom: error: ");
      EXPECT_EQ(said.find("transom: error: ", first + 1), said.npos) << said;
      EXPECT_NE(said.find("rank " + std::to_string(rank) + " is lost"), said.npos) << said;
      EXPECT_LT(took, 10);
      ++named_;
    } else {
      // It had not come yet, or had nothing left to do.
      ++silent_;
      EXPECT_TRUE(said.empty() || said.find("came") != said.npos || said.find("reached") != said.npos) << said;
    }
    return false;
  }

  test::TemporaryFolder folder_;
  int kills_ = 0, named_ = 0, silent_ = 0;
};

TEST_F(RandomKills, LoseNothing) {
  unsigned long long seed = 1, count = 2;
  const char* wanted = std::getenv("TRANSOM_RANDOM_KILLS");
  if (wanted) {
    ASSERT_EQ(std::sscanf(wanted, "%llu,%llu", &seed, &count), 2) << wanted;
  }
  std::mt19937_64 random(seed);
  std::map<size_t, Whole> wholes;  // by layout
  int finished = 0;
  for (size_t each = seed; static_cast<unsigned long long>(kills_) < count; ++each) {
    const size_t number = each % killed_layouts().size();
    const KilledLayout& layout = killed_layouts()[number];
    fs::remove_all(folder_ / "killed");
    if (!wholes.contains(number)) wholes[number] = run_whole(layout, "whole" + std::to_string(number));
    const Whole& whole = wholes[number];
    bool over = false;
    for (int kill = 0; kill < 12 && !over && static_cast<unsigned long long>(kills_) < count; ++kill) {
      const double seconds = whole.seconds * static_cast<double>(random() % 1000) / 1000;
      over = run_killed(layout, static_cast<int>(random() % static_cast<uint64_t>(layout.ranks)), seconds);
      if (HasFailure()) return;
    }
    const Whole resumed = run_whole(layout, "killed");
    EXPECT_EQ(resumed.model == whole.model, true) << "layout " << each;
    EXPECT_EQ(resumed.states == whole.states, true) << "layout " << each;
    EXPECT_FALSE(whole.states.empty());
    ++finished;
    if (wanted)
      std::printf("%d kills (%d named, %d before or after the run), %d runs of the same bits\n", kills_, named_,
                  silent_, finished);
    std::fflush(stdout);
  }
}

}  // namespace
}  // namespace transom
