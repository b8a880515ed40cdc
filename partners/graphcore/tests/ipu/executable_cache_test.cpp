// SPDX-License-Identifier: Apache-2.0
// executable_cache_dir: programs that were compiled before are found again.
#include <gtest/gtest.h>

#include <fstream>

#include "ipu_options.h"
#include "testing/ranks.h"

namespace transom {
namespace {

using namespace test;

class IpuExecutableCache : public test::IpuOptions {
 protected:
  void SetUp() override {
    ::unsetenv("POPTORCH_CACHE_DIR");
    ::setenv("TRANSOM_LOG", "memory", 1);
    IpuOptions::SetUp();
    if (!IsSkipped()) save_small_model();
  }
  void TearDown() override {
    ::unsetenv("TRANSOM_LOG");
    ::unsetenv("POPTORCH_CACHE_DIR");
    IpuOptions::TearDown();
  }
  void keep_programs(const std::string& more = "") {
    configure(R"({"executable_cache_dir": ")" + cache_.string() + "\"" + more + "}");
  }
  std::vector<fs::path> files() const {
    std::vector<fs::path> all;
    if (fs::exists(cache_))
      for (const auto& entry : fs::directory_iterator(cache_)) all.push_back(entry.path());
    std::sort(all.begin(), all.end());
    return all;
  }
  static int times(const std::string& text, const std::string& part) {
    int count = 0;
    for (size_t at = text.find(part); at != text.npos; at = text.find(part, at + 1)) ++count;
    return count;
  }
  static int programs(const Outcome& outcome) { return times(outcome.error, "a program of "); }
  static int kept(const Outcome& outcome) { return times(outcome.error, ", compiled before"); }
  static int warnings(const Outcome& outcome) { return times(outcome.error, "expected a program that was compiled"); }

  fs::path cache_ = folder_ / "cache";
};

TEST_F(IpuExecutableCache, TheSecondRunCompilesNothing) {
  const Outcome without = train("without", 8);
  keep_programs();
  const Outcome first = train("first", 8);
  ASSERT_EQ(first.status, 0) << first.error;
  const Outcome second = train("second", 8);
  EXPECT_GT(programs(first), 0);
  EXPECT_EQ(kept(first), 0) << first.error;
  EXPECT_EQ(kept(second), programs(first)) << second.error;
  EXPECT_EQ(warnings(second), 0) << second.error;
  EXPECT_EQ(without.output, second.output);
  EXPECT_EQ(weights("without"), weights("second"));
  EXPECT_EQ(weights("first"), weights("second"));
}

TEST_F(IpuExecutableCache, TheEnvironmentNamesAFolderToo) {
  ::setenv("POPTORCH_CACHE_DIR", cache_.c_str(), 1);
  train("first", 8);
  EXPECT_GT(files().size(), 0u);
  const Outcome second = train("second", 8);
  EXPECT_EQ(kept(second), programs(second)) << second.error;
}

TEST_F(IpuExecutableCache, OtherAskersGetTheirOwn) {
  keep_programs();
  const Outcome first = train("first", 8);
  const size_t before = files().size();
  ASSERT_GT(before, 0u);
  // Another shape, another configuration, another model: each has what it has without a cache.
  const Outcome batch = train("batch", 4);
  EXPECT_LT(kept(batch), programs(batch));
  keep_programs(R"(, "optimizer_state_offchip": true)");
  const Outcome beside = train("beside", 8);
  EXPECT_LT(kept(beside), programs(beside));
  EXPECT_EQ(beside.output, first.output);
  EXPECT_EQ(weights("beside"), weights("first"));
  const Outcome other = train("other", 8, {"--weight_decay", "0.3"});
  ::unsetenv("TRANSOM_IPU_CONFIG");
  EXPECT_EQ(train("plain", 8, {"--weight_decay", "0.3"}).output, other.output);
  EXPECT_EQ(weights("plain"), weights("other"));
  EXPECT_NE(weights("plain"), weights("first"));
  EXPECT_GT(files().size(), before);
}

TEST_F(IpuExecutableCache, FilesThatAreNotOursAreReplaced) {
  keep_programs();
  const Outcome first = train("first", 8);
  const std::vector<fs::path> all = files();
  ASSERT_GE(all.size(), 3u);
  const std::string whole = read_file(all[0]), other = read_file(all[1]);
  const auto expect_replaced = [&](const std::string& bytes, const std::string& why) {
    write_file(all[0], bytes);
    const Outcome again = train(why, 8);
    EXPECT_EQ(again.status, 0) << again.error;
    EXPECT_EQ(warnings(again), 1) << why << again.error;
    EXPECT_NE(again.error.find(all[0].filename().string()), std::string::npos) << again.error;
    EXPECT_TRUE(weights(why) == weights("first")) << why;
    EXPECT_TRUE(read_file(all[0]) == whole) << why;
  };
  expect_replaced(whole.substr(0, whole.size() / 2), "cut off");
  std::string flipped = whole;
  flipped[whole.size() - 100] ^= 4;
  expect_replaced(flipped, "damaged");
  expect_replaced(other, "another one");
  expect_replaced("", "empty");
  EXPECT_EQ(warnings(train("clean", 8)), 0);
}

TEST_F(IpuExecutableCache, AFolderThatCannotBeWrittenHindersNobody) {
  write_file(folder_ / "a file", "x");
  cache_ = folder_ / "a file" / "cache";
  keep_programs();
  const Outcome outcome = train("out", 8);
  EXPECT_EQ(outcome.status, 0) << outcome.error;
  EXPECT_NE(outcome.error.find("a program is not kept"), std::string::npos) << outcome.error;
}

TEST_F(IpuExecutableCache, SeveralProcessesUseOneFolder) {
  keep_programs();
  std::vector<std::unique_ptr<Program>> all;
  for (int i = 0; i < 3; ++i) {
    const fs::path place = folder_ / ("process" + std::to_string(i));
    fs::create_directories(place);
    all.push_back(std::make_unique<Program>(
        test::training_words(folder_, "ipu", "out" + std::to_string(i), 8, {"--max_steps", "3"}), place));
  }
  for (const auto& program : all) {
    const Outcome outcome = program->wait();
    EXPECT_EQ(outcome.status, 0) << outcome.error;
    EXPECT_EQ(warnings(outcome), 0) << outcome.error;
  }
  for (const fs::path& file : files()) EXPECT_EQ(file.extension(), ".executable") << file;
  for (int i = 1; i < 3; ++i) EXPECT_EQ(weights("out0"), weights("out" + std::to_string(i)));
  const Outcome after = train("after", 8);
  EXPECT_EQ(kept(after), programs(after)) << after.error;
  EXPECT_EQ(weights("after"), weights("out0"));
}

}  // namespace
}  // namespace transom
