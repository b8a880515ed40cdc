// SPDX-License-Identifier: Apache-2.0
// Kernels on disk: what is not exactly what was written is never run, and nothing depends on the files being there.
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>
#include <iterator>

#include "cpu/codegen/cache.h"
#include "support/temporary_folder.h"

namespace transom::cpu::codegen {
namespace {

namespace fs = std::filesystem;

class KernelCache : public testing::Test {
 protected:
  void put(const std::string& bytes) const {
    std::ofstream(file(), std::ios::binary).write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
    ::chmod(file().c_str(), 0600);
  }
  fs::path file() const { return cache().path_of("target", "key"); }
  DiskCache cache() const { return DiskCache(folder_ / "kernels"); }

  test::TemporaryFolder folder_;
  const Code code_{std::string("\x90\xc3\0\x55 constants", 14), 1};
};

TEST_F(KernelCache, GivesBackWhatWasWritten) {
  EXPECT_FALSE(cache().read("target", "key"));
  cache().write("target", "key", code_);
  const auto read = cache().read("target", "key");
  ASSERT_TRUE(read);
  EXPECT_EQ(read->bytes, code_.bytes);
  EXPECT_EQ(read->entry, code_.entry);
  EXPECT_FALSE(cache().read("another target", "key"));
  EXPECT_FALSE(cache().read("target", "another key"));
  size_t files = 0;
  for (const auto& entry : fs::directory_iterator(folder_ / "kernels")) files += entry.is_regular_file();
  EXPECT_EQ(files, 1u);  // nothing is left beside it
}

TEST_F(KernelCache, EveryCutAndEveryChangedByteIsFound) {
  const std::string whole = encode_image("target", "key", code_);
  ASSERT_TRUE(decode_image(whole, "target", "key"));
  for (size_t length = 0; length < whole.size(); ++length)
    EXPECT_FALSE(decode_image(whole.substr(0, length), "target", "key")) << length;
  for (size_t at = 0; at < whole.size(); ++at)
    for (const int bit : {0, 3, 7}) {
      std::string changed = whole;
      changed[at] = static_cast<char>(changed[at] ^ (1 << bit));
      EXPECT_FALSE(decode_image(changed, "target", "key")) << at;
    }
  EXPECT_FALSE(decode_image(whole + "x", "target", "key"));
}

TEST_F(KernelCache, ACorruptFileIsRemovedAndWrittenAgain) {
  cache().write("target", "key", code_);
  put("not a kernel");
  EXPECT_FALSE(cache().read("target", "key"));
  EXPECT_FALSE(fs::exists(file()));
  cache().write("target", "key", code_);
  EXPECT_TRUE(cache().read("target", "key"));
  // A file that holds another kernel under this one's name.
  put(encode_image("target", "another key", code_));
  EXPECT_FALSE(cache().read("target", "key"));
  // One of another version of Transom.
  put(encode_image("another target", "key", code_));
  EXPECT_FALSE(cache().read("target", "key"));
}

TEST_F(KernelCache, TakesNothingThatOthersMayWrite) {
  cache().write("target", "key", code_);
  ::chmod(file().c_str(), 0622);
  EXPECT_FALSE(cache().read("target", "key"));
  ::chmod(file().c_str(), 0600);
  ASSERT_TRUE(cache().read("target", "key"));
  ::chmod((folder_ / "kernels").c_str(), 0777);
  EXPECT_FALSE(cache().read("target", "key"));
  ::chmod((folder_ / "kernels").c_str(), 0700);
  ASSERT_TRUE(cache().read("target", "key"));

  const fs::path elsewhere = folder_ / "elsewhere";
  fs::rename(file(), elsewhere);
  fs::create_symlink(elsewhere, file());
  EXPECT_FALSE(cache().read("target", "key"));
  fs::remove(file());
  ASSERT_EQ(::mkfifo(file().c_str(), 0600), 0);
  EXPECT_FALSE(cache().read("target", "key"));  // and does not wait for a writer
  fs::remove(file());
  fs::create_directory(file());
  EXPECT_FALSE(cache().read("target", "key"));
}

TEST_F(KernelCache, TheFolderMayVanishAndTheCacheMayBeOff) {
  cache().write("target", "key", code_);
  fs::remove_all(folder_ / "kernels");
  EXPECT_FALSE(cache().read("target", "key"));
  cache().write("target", "key", code_);
  EXPECT_TRUE(cache().read("target", "key"));
  const DiskCache off{{}};
  off.write("target", "key", code_);
  EXPECT_FALSE(off.read("target", "key"));
  const DiskCache impossible("/proc/no/such/folder");
  impossible.write("target", "key", code_);
  EXPECT_FALSE(impossible.read("target", "key"));
}

TEST_F(KernelCache, TheOldestGoFirst) {
  const DiskCache kernels = cache();
  const Code large{std::string(10000, 'x'), 0};
  for (int i = 0; i < 8; ++i) {
    kernels.write("target", std::to_string(i), large);
    const fs::path made = kernels.path_of("target", std::to_string(i));
    fs::last_write_time(made, fs::file_time_type::clock::now() - std::chrono::hours(8 - i));
  }
  std::ofstream(folder_ / "kernels" / "not-ours.txt") << "stays";
  kernels.trim(1 << 20);
  for (int i = 0; i < 8; ++i) EXPECT_TRUE(kernels.read("target", std::to_string(i))) << i;
  kernels.trim(60000);
  for (int i = 0; i < 8; ++i) EXPECT_EQ(kernels.read("target", std::to_string(i)).has_value(), i >= 4) << i;
  EXPECT_TRUE(fs::exists(folder_ / "kernels" / "not-ours.txt"));
}

}  // namespace
}  // namespace transom::cpu::codegen
