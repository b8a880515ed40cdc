// SPDX-License-Identifier: Apache-2.0
// transom list and rm, on a cache as huggingface_hub lays it out.
#include <gtest/gtest.h>

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include "apps/cli/program.h"
#include "base/files/directories.h"
#include "base/files/files.h"
#include "base/json/json.h"
#include "support/temporary_folder.h"

namespace transom {
namespace {

class CachedModels : public testing::Test {
 protected:
  CachedModels() {
    for (const char* id : {"owner--small", "gpt2"}) {
      const fs::path model = cache_ / (std::string("models--") + id);
      fs::create_directories(model / "blobs");
      fs::create_directories(model / "snapshots" / kCommit);
      write_file(model / "blobs" / "abc", std::string(1500, 'x'));
      fs::create_symlink("../../blobs/abc", model / "snapshots" / kCommit / "model.safetensors");
    }
    fs::create_directories(cache_ / "datasets--owner--rows" / "snapshots" / kCommit);
    fs::create_directories(cache_ / "models--unfinished");
  }
  std::string with_cache(const std::string& words) const { return words + " --cache_dir " + cache_.string(); }
  static constexpr const char* kCommit = "0123456789abcdef0123456789abcdef01234567";
  test::TemporaryFolder cache_;
};

TEST_F(CachedModels, AreListed) {
  const Json list = parse_json(run(with_cache("list --json")).output, "list");
  ASSERT_EQ(list.size(), 2u);
  EXPECT_EQ(list[0]["id"], "gpt2");
  EXPECT_EQ(list[1]["id"], "owner/small");
  EXPECT_EQ(list[1]["bytes"], 1500);  // the blob, and not the link to it besides
  EXPECT_EQ(list[1]["commits"], Json::array({kCommit}));
  const std::string table = run(with_cache("list")).output;
  EXPECT_NE(table.find("owner/small     1.5 KB"), std::string::npos) << table;
  EXPECT_EQ(run("list --cache_dir /nowhere").output, "");
}

TEST_F(CachedModels, AreRemoved) {
  EXPECT_EQ(run(with_cache("rm owner/small")).output, "owner/small: 1.5 KB less\n");
  EXPECT_FALSE(path_exists(cache_ / "models--owner--small"));
  EXPECT_TRUE(path_exists(cache_ / "models--gpt2"));
  expect_one_line(run(with_cache("rm owner/small")), 1, "owner/small: is not in the cache");
  expect_one_line(run(with_cache("rm ../gpt2")), 2, "expected an id of the Hugging Face Hub");
  expect_one_line(run("pull ./here"), 2, "expected an id of the Hugging Face Hub");
}

TEST_F(CachedModels, StayWhileTheyAreDownloaded) {
  fs::create_directories(cache_ / ".locks" / "models--gpt2");
  const fs::path lock = cache_ / ".locks" / "models--gpt2" / "abc.lock";
  write_file(lock, "");
  const int held = ::open(lock.c_str(), O_RDWR | O_CLOEXEC);
  ASSERT_EQ(::flock(held, LOCK_EX), 0);
  expect_one_line(run(with_cache("rm gpt2")), 1, "is being downloaded");
  ::close(held);
  EXPECT_EQ(run(with_cache("rm gpt2")).status, 0);
}

}  // namespace
}  // namespace transom
