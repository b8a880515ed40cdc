// SPDX-License-Identifier: Apache-2.0
// Files that compile together have no private functions of one name, and scripts/check-names notices those that do.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "support/command.h"
#include "support/folders.h"
#include "support/temporary_folder.h"

namespace {

namespace fs = std::filesystem;

transom::test::CommandOutcome check_names(const std::string& root) {
  return transom::test::run_command(transom::test::source_folder() + "/scripts/check-names '" + root + "'");
}

TEST(CheckNames, PrivateFunctionsOfThisTreeDiffer) {
  const auto outcome = check_names(transom::test::source_folder());
  EXPECT_EQ(outcome.status, 0) << outcome.output;
}

TEST(CheckNames, TwoOfOneNameAreNamed) {
  const transom::test::TemporaryFolder folder;
  for (const char* room : {"src/a", "src/b"}) fs::create_directories(folder.path() / room);
  const auto write = [&](const char* file, const std::string& text) { std::ofstream(folder.path() / file) << text; };
  const std::string words = "namespace {\n\nint words(int x) {\n  return x;\n}\n\n}  // namespace\n";
  write("src/a/one.cpp", words + "int sum(int x) { return words(x); }\n");
  write("src/b/two.cpp", words);                                            // another folder
  write("src/a/three.cpp", "int words(int x, int y) { return x + y; }\n");  // for all to see
  EXPECT_EQ(check_names(folder.path().string()).status, 0);
  write("src/a/four.cpp",
        "#include <string>\nnamespace {\nstd::string words(const std::string& x) { return x; }\n"
        "}  // namespace\n");
  const auto outcome = check_names(folder.path().string());
  EXPECT_EQ(outcome.status, 1);
  EXPECT_EQ(outcome.output,
            "src/a/four.cpp:3: the private function 'words' has the name of another in this folder: "
            "src/a/one.cpp:3\n");
}

TEST(CheckNames, TwoPrivateTypesOfOneNameAreNamed) {
  const transom::test::TemporaryFolder folder;
  fs::create_directories(folder.path() / "tests/a");
  const auto write = [&](const char* file, const std::string& text) { std::ofstream(folder.path() / file) << text; };
  write("tests/a/one.cpp", "namespace {\n\nstruct Case {\n  int x;\n};\n\n}  // namespace\n");
  write("tests/a/two.cpp", "namespace {\n\nstruct Case;\nclass Other : public Base {\n};\n\n}  // namespace\n");
  EXPECT_EQ(check_names(folder.path().string()).output, "");
  write("tests/a/two.cpp", "namespace {\n\nclass Case : public Base {\n};\n\n}  // namespace\n");
  EXPECT_EQ(check_names(folder.path().string()).output,
            "tests/a/one.cpp:3: the private type 'Case' has the name of another in this folder: tests/a/two.cpp:3\n");
}

TEST(CheckNames, OneThatAHeaderBesideItDeclaresIsNamed) {
  const transom::test::TemporaryFolder folder;
  fs::create_directories(folder.path() / "src/a");
  const auto write = [&](const char* file, const std::string& text) { std::ofstream(folder.path() / file) << text; };
  write("src/a/one.h", "void expect_one(int x);\n");
  write("src/a/two.cpp", "namespace {\n\nvoid expect_two(int x) {\n}\n\n}  // namespace\n");
  EXPECT_EQ(check_names(folder.path().string()).output, "");
  write("src/a/two.cpp", "namespace {\n\nvoid expect_one(long x) {\n}\n\n}  // namespace\n");
  EXPECT_EQ(check_names(folder.path().string()).output,
            "src/a/two.cpp:3: the private function 'expect_one' has the name of a function of src/a/one.h:1\n");
}

TEST(CheckNames, ATypeWithTheNameOfAnAliasIsNamed) {
  const transom::test::TemporaryFolder folder;
  fs::create_directories(folder.path() / "src/a");
  const auto write = [&](const char* file, const std::string& text) { std::ofstream(folder.path() / file) << text; };
  write("src/a/one.h", "namespace transom {\nusing Source = int;\n}  // namespace transom\n");
  write("src/a/two.h", "namespace transom {\nstruct Sink {\n};\n}  // namespace transom\n");
  EXPECT_EQ(check_names(folder.path().string()).output, "");
  write("src/a/two.h", "namespace transom {\nstruct Source {\n};\n}  // namespace transom\n");
  EXPECT_EQ(check_names(folder.path().string()).output,
            "src/a/two.h:2: the type 'transom::Source' is defined again: src/a/one.h:2\n");
}

TEST(CheckNames, TwoConstantsOfOneNameAreNamed) {
  const transom::test::TemporaryFolder folder;
  fs::create_directories(folder.path() / "tests/a");
  const auto write = [&](const char* file, const std::string& text) { std::ofstream(folder.path() / file) << text; };
  write("tests/a/one.cpp", "namespace {\nconstexpr int kRows = 2, kColumns = 3;\n}  // namespace\n");
  write("tests/a/two.cpp",
        "namespace {\nint rows() {\n  constexpr int kRows = 2;\n  return kRows;\n}\n}  // namespace\n");
  EXPECT_EQ(check_names(folder.path().string()).output, "");
  write("tests/a/two.cpp", "namespace {\nconst std::string kColumns[] = {};\n}  // namespace\n");
  EXPECT_EQ(check_names(folder.path().string()).output,
            "tests/a/one.cpp:2: the private constant 'kColumns' has the name of another in this folder: "
            "tests/a/two.cpp:2\n");
}

TEST(CheckNames, ATypeThatANamespaceHasTwiceIsNamed) {
  const transom::test::TemporaryFolder folder;
  for (const char* room : {"src/a", "src/b", "include"}) fs::create_directories(folder.path() / room);
  const auto write = [&](const char* file, const std::string& text) { std::ofstream(folder.path() / file) << text; };
  const auto in = [](const std::string& space, const std::string& text) {
    return "namespace " + space + "{\n\n" + text + "\n\n}  // namespace " + space + "\n";
  };
  write("src/a/one.h", in("transom ", "struct Range {\n  int begin;\n};"));
  write("src/b/declared.h", in("transom ", "struct Range;"));
  write("src/b/elsewhere.h", in("transom::b ", "struct Range {\n  int begin;\n};"));
  write("src/b/own.cpp", in("transom ", in("", "struct Range {};")));
  write("src/b/inner.h", in("transom ", "struct Outer {\n  struct Range {\n    int begin;\n  };\n};"));
  EXPECT_EQ(check_names(folder.path().string()).output, "");
  write("include/two.h", in("transom ", "class Range : public Base {\n};"));
  const auto outcome = check_names(folder.path().string());
  EXPECT_EQ(outcome.status, 1);
  EXPECT_EQ(outcome.output, "include/two.h:3: the type 'transom::Range' is defined again: src/a/one.h:3\n");
}

}  // namespace
