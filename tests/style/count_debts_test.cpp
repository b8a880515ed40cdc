// SPDX-License-Identifier: Apache-2.0
// Debts of the design only go down: scripts/count-debts holds each place to its number in scripts/debts.json.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "support/command.h"
#include "support/folders.h"
#include "support/temporary_folder.h"

namespace {

namespace fs = std::filesystem;

transom::test::CommandOutcome count_debts(const std::string& arguments) {
  return transom::test::run_command(transom::test::source_folder() + "/scripts/count-debts " + arguments);
}

// A tree with one family, and one file outside of its folder.
class DebtsOfATree : public testing::Test {
 protected:
  DebtsOfATree() {
    write("src/models/families/bert/bert.cpp", "Family bert() { return {.model_type = \"bert\"}; }\n");
    write("src/text/names.cpp", "bool asks(const Config& c) { return c.get_string(\"model_type\") == \"bert\"; }\n");
  }
  void write(const char* file, const std::string& text) {
    fs::create_directories((folder_.path() / file).parent_path());
    std::ofstream(folder_.path() / file) << text;
  }
  transom::test::CommandOutcome check() { return count_debts("--check '" + folder_.path().string() + "'"); }

 private:
  transom::test::TemporaryFolder folder_;
};

TEST(CountDebts, ThisTreeHasWhatIsAllowed) {
  const auto outcome = count_debts("--check");
  EXPECT_EQ(outcome.status, 0) << outcome.output;
}

TEST_F(DebtsOfATree, MoreThanAllowedIsRefused) {
  write("scripts/debts.json", R"({"families": {}, "model-types": {"src/text/names.cpp": 1}})");
  const auto outcome = check();
  EXPECT_EQ(outcome.status, 1);
  EXPECT_NE(outcome.output.find("src/text/names.cpp: families: expected 0, found 1"), std::string::npos)
      << outcome.output;
  EXPECT_EQ(outcome.output.find("model-types"), std::string::npos) << outcome.output;
}

TEST_F(DebtsOfATree, FewerThanAllowedAsksForTheLowerNumber) {
  write("scripts/debts.json", R"({"families": {"src/text/names.cpp": 3}, "model-types": {"src/text/names.cpp": 1}})");
  EXPECT_NE(check().output.find("src/text/names.cpp: families: expected 3, found 1: lower the number"),
            std::string::npos);
  write("scripts/debts.json",
        R"({"families": {"src/text/names.cpp": [1, "the reason"]}, "model-types": {"src/text/names.cpp": 1}})");
  EXPECT_EQ(check().output.find("names.cpp"), std::string::npos) << check().output;
}

TEST_F(DebtsOfATree, LongFunctionsAreCounted) {
  std::string body = "int longest() {\n  int x = 0;\n";
  for (int i = 0; i < 80; ++i) body += "  ++x;\n";
  write("src/base/longest.cpp", body + "  return x;\n}\n");
  EXPECT_NE(check().output.find("src/base/longest.cpp: functions: expected 0, found 1"), std::string::npos)
      << check().output;
}

}  // namespace
