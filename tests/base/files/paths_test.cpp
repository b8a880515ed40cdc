// SPDX-License-Identifier: Apache-2.0
#include "base/files/paths.h"

#include <gtest/gtest.h>

#include "base/files/files.h"
#include "support/temporary_folder.h"

namespace transom {
namespace {

TEST(Paths, EntriesAreByNameAndNoneWhereNothingCanBeRead) {
  const test::TemporaryFolder folder;
  for (const char* name : {"b", "a", "c"}) write_file(folder / name, "");
  EXPECT_EQ(entries_of(folder.path()), (std::vector<fs::path>{folder / "a", folder / "b", folder / "c"}));
  EXPECT_TRUE(entries_of(folder / "none").empty());
  EXPECT_TRUE(entries_of(folder / "a").empty()) << "a file";
  EXPECT_TRUE(entries_of(folder / std::string(5000, 'x')).empty()) << "a name that the system refuses";
}

TEST(Paths, SameFilesAreSoByAnyName) {
  const test::TemporaryFolder folder;
  write_file(folder / "a", "1");
  write_file(folder / "b", "1");
  fs::create_symlink(folder / "a", folder / "link");
  EXPECT_TRUE(is_same_file(folder / "link", folder / "." / "a"));
  EXPECT_FALSE(is_same_file(folder / "a", folder / "b"));
  EXPECT_FALSE(is_same_file(folder / "none", folder / "none"));
}

TEST(Paths, AbsoluteOnesBeginAtTheWorkingDirectory) {
  EXPECT_EQ(absolute_path("x/y"), working_directory() / "x" / "y");
  EXPECT_EQ(absolute_path("/x/y"), "/x/y");
}

}  // namespace
}  // namespace transom
