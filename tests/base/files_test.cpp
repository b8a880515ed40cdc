// SPDX-License-Identifier: Apache-2.0
#include "base/files.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include "transom/error.h"

namespace transom {
namespace {

class Files : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::temp_directory_path() / ("transom_files_" + std::to_string(::getpid()));
    fs::remove_all(folder_);
    fs::create_directories(folder_);
  }
  void TearDown() override { fs::remove_all(folder_); }
  size_t count() const {
    return static_cast<size_t>(std::distance(fs::directory_iterator(folder_), fs::directory_iterator()));
  }
  fs::path folder_;
};

TEST_F(Files, AppearOnCommitOnly) {
  write_file(folder_ / "a", "old");
  {
    AtomicFile file(folder_ / "a");
    file.write("new");
    EXPECT_EQ(read_file(folder_ / "a"), "old");
  }
  EXPECT_EQ(read_file(folder_ / "a"), "old");
  EXPECT_EQ(count(), 1u);
  const std::string large(3 << 20, 'x');
  AtomicFile file(folder_ / "a");
  file.write("begin");
  file.write(large);
  file.write("end");
  file.commit();
  EXPECT_TRUE(read_file(folder_ / "a") == "begin" + large + "end");
}

TEST_F(Files, OfDeadProcessesAreRemoved) {
  const pid_t child = ::fork();
  if (child == 0) {
    new AtomicFile(folder_ / "a");  // as after SIGKILL: nobody cleans up
    ::_exit(0);
  }
  ::waitpid(child, nullptr, 0);
  EXPECT_EQ(count(), 1u);
  const AtomicFile living(folder_ / "a");
  write_file(folder_ / "a", "x");
  EXPECT_EQ(count(), 2u);  // the file, and what is still being written
}

TEST_F(Files, DevicesAreNotReplaced) {
  write_file("/dev/null", "x");
  EXPECT_TRUE(fs::is_character_file("/dev/null"));
  EXPECT_THROW(write_file("/dev/full", "x"), Error);
  EXPECT_THROW(write_file(folder_, "x"), Error);
}

TEST_F(Files, DirectoriesAreReplacedAtOnce) {
  fs::create_directories(folder_ / "tmp-a");
  write_file(folder_ / "tmp-a" / "one", "1");
  replace_directory(folder_ / "tmp-a", folder_ / "a");
  fs::create_directories(folder_ / "tmp-a");
  write_file(folder_ / "tmp-a" / "two", "2");
  replace_directory(folder_ / "tmp-a", folder_ / "a");
  EXPECT_EQ(count(), 1u);
  EXPECT_TRUE(fs::exists(folder_ / "a" / "two"));
  EXPECT_FALSE(fs::exists(folder_ / "a" / "one"));
  remove_directory(folder_ / "a");
  EXPECT_EQ(count(), 0u);
}

}  // namespace
}  // namespace transom
