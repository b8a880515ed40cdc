// SPDX-License-Identifier: Apache-2.0
#include "files/hub/names.h"

#include <gtest/gtest.h>

#include "files/hub/digest.h"
#include "files/hub/hub_server.h"
#include "support/message.h"

namespace transom {
namespace {

using test::message_of;

TEST(Names, OfModels) {
  for (const char* id :
       {"bert-base-uncased", "google-bert/bert-base-uncased", "a", "123", "Foo-BAR_foo.bar123", "_x/y_"})
    EXPECT_TRUE(is_model_id(id)) << id;
  const std::string longest(96, 'x');
  EXPECT_TRUE(is_model_id(longest + "/" + longest));
  for (const std::string& id :
       {std::string(), std::string("a/b/c"), std::string("/a"), std::string("a/"), std::string(".a"), std::string("a."),
        std::string("a-"), std::string("a--b"), std::string("a..b"), std::string("a.git"), std::string("a b"),
        std::string("a\0b", 3), std::string("caf\xC3\xA9"), longest + "x", std::string("a\\b"), std::string("a?b")})
    EXPECT_FALSE(is_model_id(id)) << id;
}

TEST(Names, OfFilesStayInside) {
  for (const char* name : {"config.json", "1_Pooling/config.json", "a b", "..x", "x.."})
    EXPECT_EQ(message_of([&] { check_file_name(name, "here"); }), "") << name;
  for (const std::string& name : {std::string(), std::string("/etc/passwd"), std::string(".."), std::string("a/../b"),
                                  std::string("a//b"), std::string("./a"), std::string("a/"), std::string("a\\b"),
                                  std::string("a\0b", 3), std::string("a\nb"), std::string(300, 'x')})
    EXPECT_NE(message_of([&] { check_file_name(name, "here"); }), "") << name;
}

TEST(Names, OfEtags) {
  EXPECT_EQ(etag_of_header("\"0123abc\"", "here"), "0123abc");
  EXPECT_EQ(etag_of_header("W/\"0123abc\"", "here"), "0123abc");
  EXPECT_EQ(etag_of_header("0123abc", "here"), "0123abc");
  EXPECT_EQ(etag_of_header("\"0123-4\"", "here"), "0123-4");
  for (const char* etag : {"", "\"\"", "\"..\"", "\"a/b\"", "\"../x\"", "\"a b\"", ".x"})
    EXPECT_NE(message_of([&] { etag_of_header(etag, "here"); }), "") << etag;
}

TEST(Names, OfCommits) {
  EXPECT_TRUE(is_commit(std::string(40, 'a')));
  EXPECT_FALSE(is_commit(std::string(40, 'A')));
  EXPECT_FALSE(is_commit(std::string(39, 'a')));
  EXPECT_FALSE(is_commit("main"));
}

TEST(Names, InFoldersAndAddresses) {
  EXPECT_EQ(cache_folder_of("owner/name"), "models--owner--name");
  EXPECT_EQ(cache_folder_of("name"), "models--name");
  EXPECT_EQ(url_encoded("refs/pr/1", false), "refs%2Fpr%2F1");
  EXPECT_EQ(url_encoded("a b/c?d", true), "a%20b/c%3Fd");
}

TEST(Digest, IsThatOfTheStandards) {
  const test::TemporaryFolder folder;
  write_file(folder.path() / "abc", "abc");
  EXPECT_EQ(sha256_of(folder.path() / "abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  write_file(folder.path() / "git", "hello world\n");  // `git hash-object`
  EXPECT_EQ(git_blob_sha1_of(folder.path() / "git"), "3b18e512dba79e4c8300dd08aeb37f8e728b8dad");
  write_file(folder.path() / "empty", "");
  EXPECT_EQ(git_blob_sha1_of(folder.path() / "empty"), "e69de29bb2d1d6434b8b29ae775ad8c2e48c5391");
}

}  // namespace
}  // namespace transom
