// SPDX-License-Identifier: Apache-2.0
#include "work/generation/engine/paged/kept/prefix_files.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <chrono>

#include "base/files/directories.h"
#include "support/kept_log.h"
#include "support/temporary_folder.h"
#include "transom/error.h"

namespace transom {
namespace {

constexpr int64_t kBytes = 100;

class FilesOfPrefixes : public testing::Test {
 protected:
  static std::vector<std::byte> block_of(int number) {
    std::vector<std::byte> block(kBytes);
    for (size_t i = 0; i < block.size(); ++i) block[i] = static_cast<std::byte>(number + static_cast<int>(i) * 7);
    return block;
  }
  static std::string key(int number) { return PrefixFiles::key_of("", {number}); }
  fs::path path(int number) const { return folder_ / weights_ / (key(number) + ".block"); }

  test::TemporaryFolder folder_;
  const std::string weights_ = std::string(32, 'a');
};

TEST_F(FilesOfPrefixes, OutliveTheirProcess) {
  {
    PrefixFiles files(folder_, weights_, kBytes, 100000);
    EXPECT_FALSE(files.has(key(1)));
    EXPECT_FALSE(files.read(key(1)));
    EXPECT_TRUE(files.write(key(1), block_of(1)));
    EXPECT_TRUE(files.has(key(1)));
    EXPECT_TRUE(files.write(key(1), block_of(1)));  // once
    EXPECT_TRUE(files.write(key(2), block_of(2)));
  }  // what waits is written
  PrefixFiles files(folder_, weights_, kBytes, 100000);
  EXPECT_EQ(files.read(key(1)), block_of(1));
  EXPECT_EQ(files.read(key(2)), block_of(2));
  EXPECT_FALSE(files.has(key(3)));
  PrefixFiles others(folder_, std::string(32, 'b'), kBytes, 100000);
  EXPECT_FALSE(others.has(key(1)));
}

TEST_F(FilesOfPrefixes, KeysAreOfAllThatStandsBefore) {
  EXPECT_NE(PrefixFiles::key_of("", {1, 2}), PrefixFiles::key_of("", {2, 1}));
  EXPECT_NE(PrefixFiles::key_of(key(1), {3}), PrefixFiles::key_of(key(2), {3}));
  EXPECT_EQ(PrefixFiles::key_of(key(1), {3}), PrefixFiles::key_of(key(1), {3}));
}

// Each is told, removed, and can be written again.
TEST_F(FilesOfPrefixes, OnesThatAreNotWhatTheirNamesSayAreNotUsed) {
  PrefixFiles files(folder_, weights_, kBytes, 100000);
  files.write(key(1), block_of(1));
  files.finish();
  const std::string whole = read_file(path(1));
  std::string other = whole, of_other_text = whole;
  other[other.size() - 3] ^= 1;
  of_other_text.replace(of_other_text.find(key(1)), key(1).size(), key(2));
  int number = 0;
  for (const std::string& text : {std::string(), std::string("x"), whole.substr(0, whole.size() - 1), whole + "x",
                                  std::string(5000, '\n'), other, of_other_text}) {
    write_file(path(1), text);
    const test::KeptLog log;
    EXPECT_FALSE(files.read(key(1))) << ++number;
    EXPECT_TRUE(log.has("is not used, and removed")) << log.text();
    EXPECT_FALSE(files.has(key(1)));
  }
  files.write(key(1), block_of(1));
  files.finish();
  EXPECT_EQ(files.read(key(1)), block_of(1));
}

TEST_F(FilesOfPrefixes, APipeOfTheNameHoldsNobody) {
  PrefixFiles files(folder_, weights_, kBytes, 100000);
  ASSERT_EQ(::mkfifo(path(1).c_str(), 0600), 0);
  EXPECT_FALSE(files.read(key(1)));
  make_directories(path(2));
  EXPECT_FALSE(files.read(key(2)));
}

TEST_F(FilesOfPrefixes, ThoseUsedLongestAgoGo) {
  const int64_t one = kBytes + 200;  // with its head, about
  PrefixFiles files(folder_, weights_, kBytes, 5 * one);
  const fs::path stranger = folder_.write("notes.txt", std::string(100000, 'n'));
  const auto now = fs::file_time_type::clock::now();
  for (int i = 0; i < 5; ++i) {
    files.write(key(i), block_of(i));
    files.finish();
    fs::last_write_time(path(i), now - std::chrono::hours(10 - i));
  }
  EXPECT_TRUE(files.read(key(0)));  // used now
  for (int i = 5; i < 8; ++i) files.write(key(i), block_of(i));
  files.finish();
  EXPECT_TRUE(files.has(key(0)));
  EXPECT_FALSE(files.has(key(1)));
  EXPECT_TRUE(files.has(key(7)));
  EXPECT_TRUE(file_exists(stranger));
  uintmax_t sum = 0;
  for (const fs::path& file : list_files_below(folder_ / weights_)) sum += fs::file_size(file);
  EXPECT_LE(sum, static_cast<uintmax_t>(5 * one));
}

TEST_F(FilesOfPrefixes, ALimitBelowABlockIsRefused) {
  EXPECT_THROW(PrefixFiles(folder_, weights_, kBytes, kBytes - 1), Error);
}

}  // namespace
}  // namespace transom
