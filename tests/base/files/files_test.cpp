// SPDX-License-Identifier: Apache-2.0
#include "base/files/files.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/file.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>

#include "support/resident_pages.h"
#include "support/temporary_folder.h"
#include "transom/error.h"

namespace transom {
namespace {

class Files : public testing::Test {
 protected:
  size_t count() const {
    return static_cast<size_t>(std::distance(fs::directory_iterator(folder_), fs::directory_iterator()));
  }
  test::TemporaryFolder folder_;
};

TEST_F(Files, MappedPagesAreLetGoAndComeBack) {
  const auto page = static_cast<size_t>(::sysconf(_SC_PAGESIZE));
  write_file(folder_ / "a", std::string(8 * page, 'x'));
  const auto file = MappedFile::open(folder_ / "a");
  EXPECT_EQ(std::count(file->text().begin(), file->text().end(), 'x'), static_cast<ptrdiff_t>(8 * page));
  ASSERT_EQ(test::resident_pages(file->bytes()), 8u);
  release_mapped(file->bytes().subspan(page + 1, 3 * page));  // two whole pages
  EXPECT_EQ(test::resident_pages(file->bytes()), 6u);
  EXPECT_EQ(std::count(file->text().begin(), file->text().end(), 'x'), static_cast<ptrdiff_t>(8 * page));
}

TEST_F(Files, OtherMemoryIsNotLetGo) {
  std::vector<std::byte> memory(1 << 20, std::byte{7});
  release_mapped(memory);
  EXPECT_EQ(std::count(memory.begin(), memory.end(), std::byte{7}), 1 << 20);
  write_file(folder_ / "a", "text");
  const auto file = MappedFile::open(folder_ / "a");
  release_mapped({file->bytes().data(), size_t{1} << 30});  // more than the file
  EXPECT_EQ(file->text(), "text");
}

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

// The number of a process that was killed goes to another after a while.
TEST_F(Files, OfAProcessWhoseNumberAnotherHasAreRemoved) {
  const pid_t child = ::fork();
  if (child == 0) {
    new AtomicFile(folder_ / "a");
    ::_exit(0);
  }
  ::waitpid(child, nullptr, 0);
  fs::path left;
  for (const auto& entry : fs::directory_iterator(folder_)) left = entry.path();
  // As if this process had got the number of that one.
  std::string name = left.string();
  const std::string number = "." + std::to_string(child) + ".";
  const size_t at = name.rfind(number);
  ASSERT_NE(at, name.npos);
  name.replace(at, number.size(), "." + std::to_string(::getpid()) + ".");
  // The child began in the same clock tick where it was quick: another time is written.
  const size_t start = name.find('.', at + 1) + 1;
  name.replace(start, name.find('.', start) - start, "1");
  fs::rename(left, name);
  write_file(folder_ / "a", "x");
  EXPECT_EQ(count(), 1u);
}

// A container or host that shares the directory has process numbers of its own: one that is unknown here may be alive
// there. What was not touched for days is removed all the same.
TEST_F(Files, OfOtherMachinesAreRemovedWhenTheyAreOld) {
  pid_t ended = ::fork();
  if (ended == 0) ::_exit(0);
  ::waitpid(ended, nullptr, 0);
  const std::string behind = "." + std::to_string(ended) + ".0.0.tmp";
  const fs::path fresh = folder_ / ("a.0123456789abcdef" + behind), old = folder_ / ("a.fedcba9876543210" + behind),
                 locked = folder_ / ("a.00000000000000ff" + behind);
  for (const fs::path& path : {fresh, old, locked}) std::ofstream(path) << "part";
  for (const fs::path& path : {old, locked})
    fs::last_write_time(path, fs::file_time_type::clock::now() - std::chrono::hours(24 * 8));
  const int writer = ::open(locked.c_str(), O_WRONLY);
  ASSERT_EQ(::flock(writer, LOCK_EX), 0);
  write_file(folder_ / "a", "x");
  EXPECT_TRUE(fs::exists(fresh));
  EXPECT_FALSE(fs::exists(old));
  EXPECT_TRUE(fs::exists(locked));
  ::close(writer);
}

// A container that shares the directory finds a process number that means nothing to it.
TEST_F(Files, OfOtherNamespacesAreLeftAlone) {
  AtomicFile file(folder_ / "a");
  file.write("host");
  const pid_t outside = ::fork();
  if (outside == 0) {
    if (::unshare(CLONE_NEWPID) != 0) ::_exit(77);
    const pid_t inside = ::fork();  // the first process of a namespace
    if (inside == 0) {
      write_file(folder_ / "a", "container");
      ::_exit(0);
    }
    int status = 0;
    ::waitpid(inside, &status, 0);
    ::_exit(WEXITSTATUS(status));
  }
  int status = 0;
  ::waitpid(outside, &status, 0);
  if (WEXITSTATUS(status) == 77) GTEST_SKIP() << "no namespaces can be made here";
  ASSERT_EQ(WEXITSTATUS(status), 0);
  EXPECT_EQ(read_file(folder_ / "a"), "container");
  EXPECT_NO_THROW(file.commit());
  EXPECT_EQ(read_file(folder_ / "a"), "host");
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
