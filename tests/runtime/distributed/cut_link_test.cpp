// SPDX-License-Identifier: Apache-2.0
// Two servers, in network namespaces of this machine, whose cable is cut in the midst of a run: no connection is
// closed, and all the same either side ends within seconds with one message that names whom it lost.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <thread>

#include "support/folders.h"
#include "support/ranks.h"
#include "support/temporary_folder.h"

namespace transom {
namespace {

TEST(CutLink, EndsBothSidesWithTheNameOfTheOther) {
  if (!test::has_library("transom_gloo.so")) GTEST_SKIP() << "built without gloo";
  const test::TemporaryFolder folder;
  test::save_model_and_rows(folder, 22);
  const auto in_folder = [&](const char* name) { return (folder / name).string(); };
  // The names of the namespaces end in the number of the script's process.
  std::string call = "sh -c 'echo $$ > " + in_folder("number") + "; exec \"$0\" \"$@\"' " + test::source_folder() +
                     "/scripts/two-servers -n 1 " + test::build_folder() + "/bin/transom";
  for (const std::string& word :
       test::training_words(folder, "cpu", "out", 3,
                            {"--max_steps", "1000000", "--save_steps", "5", "--ddp_timeout", "6", "--zero_stage", "1"}))
    call += " " + word;
  call = "TRANSOM_NUM_THREADS=1 " + call + " > /dev/null 2> " + in_folder("said");

  using Clock = std::chrono::steady_clock;
  Clock::time_point cut = Clock::now();
  std::atomic<bool> ended = false;
  std::thread knife([&] {
    while (!fs::exists(folder / "out" / "checkpoint-5") && !ended)
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    if (ended) return;
    const std::string number = read_file(folder / "number");
    cut = Clock::now();
    EXPECT_EQ(std::system(("ip -n transom" + number.substr(0, number.find('\n')) + "a link set cable down").c_str()),
              0);
  });
  const int state = std::system(call.c_str());
  ended = true;
  knife.join();
  const std::string said = read_file(folder / "said");
  if (WIFEXITED(state) && WEXITSTATUS(state) == 77) GTEST_SKIP() << said;
  EXPECT_TRUE(WIFEXITED(state) && WEXITSTATUS(state) == 1) << said;
  EXPECT_LT(Clock::now() - cut, std::chrono::seconds(30));
  EXPECT_EQ(std::count(said.begin(), said.end(), '\n'), 2) << said;
  for (const char* lost : {"rank 0 is lost", "rank 1 is lost"})
    EXPECT_NE(said.find(std::string("transom: error: ") + lost), said.npos) << said;
  EXPECT_TRUE(fs::exists(folder / "out" / "checkpoint-5" / "manifest.json"));
}

}  // namespace
}  // namespace transom
