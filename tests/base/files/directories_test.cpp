// SPDX-License-Identifier: Apache-2.0
#include "base/files/directories.h"

#include <gtest/gtest.h>

#include "support/message.h"
#include "support/temporary_folder.h"

namespace transom {
namespace {

TEST(Directories, AnswerMakeListAndRemove) {
  const test::TemporaryFolder folder;
  folder.write("b.txt", "x");
  EXPECT_FALSE(path_exists(folder / "a"));
  make_directories(folder / "a" / "c");
  make_directories(folder / "a" / "c");
  EXPECT_TRUE(directory_exists(folder / "a"));
  EXPECT_FALSE(file_exists(folder / "a"));
  EXPECT_TRUE(file_exists(folder / "b.txt"));
  EXPECT_FALSE(path_exists(folder / "b.txt" / "c"));  // not an error: nothing is below a file
  folder.write("a/c/d.txt", "x");
  EXPECT_EQ(list_directory(folder.path()), (std::vector<fs::path>{folder / "a", folder / "b.txt"}));
  EXPECT_EQ(list_files_below(folder.path()), (std::vector<fs::path>{folder / "a" / "c" / "d.txt", folder / "b.txt"}));
  remove_tree(folder / "a");
  remove_tree(folder / "a");
  EXPECT_FALSE(path_exists(folder / "a"));
}

// What std::filesystem throws is not an Error, and its text begins with "filesystem error: ".
TEST(Directories, ErrorsNameThePathAndTheReason) {
  const test::TemporaryFolder folder;
  folder.write("file", "x");
  const std::string file = (folder / "file").string();
  EXPECT_EQ(test::message_of([&] { make_directories(folder / "file" / "a"); }),
            "'" + file + "/a': this directory cannot be made: Not a directory");
  EXPECT_EQ(test::message_of([&] { list_directory(folder / "none"); }),
            "'" + (folder / "none").string() + "': cannot be read: No such file or directory");
  const std::string message = test::message_of([] { file_exists(std::string(5000, 'x')); });
  EXPECT_NE(message.find("cannot be examined: File name too long"), std::string::npos) << message;
}

}  // namespace
}  // namespace transom
