// SPDX-License-Identifier: Apache-2.0
// Each place of this tree has the debts that scripts/debts.json allows it, and scripts/count-debts sees new ones.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "base/json/json.h"
#include "support/command.h"
#include "support/folders.h"
#include "support/temporary_folder.h"

namespace transom {
namespace {

namespace fs = std::filesystem;

test::CommandOutcome count_debts(const std::string& arguments) {
  return test::run_command(test::source_folder() + "/scripts/count-debts " + arguments);
}

TEST(CountDebts, ThisTreeHasThoseThatItIsAllowed) {
  const auto outcome = count_debts("--check");
  EXPECT_EQ(outcome.status, 0) << outcome.output;
}

// A tree of its own, with one family.
class CountDebtsOf : public testing::Test {
 protected:
  void SetUp() override {
    write("src/models/families/bert/bert.cpp",
          "Family bert_family() {\n  return {.model_type = \"bert\", .name = \"BertForMaskedLM\"};\n}\n");
  }
  void write(const std::string& file, const std::string& text) {
    fs::create_directories((folder_.path() / file).parent_path());
    std::ofstream(folder_.path() / file) << text;
  }
  test::CommandOutcome run(const std::string& arguments) {
    return count_debts(arguments + " '" + folder_.path().string() + "'");
  }
  Json places(const std::string& kind) {
    return parse_json(run("--json").output, "scripts/count-debts --json").at(kind).at("places");
  }

  test::TemporaryFolder folder_;
};

TEST_F(CountDebtsOf, NamesOfFamiliesInQuotes) {
  EXPECT_EQ(run("--check").output, "");
  write("src/files/gguf/names.cpp", "const char* kName = \"bert\";\n");  // GGUF's own word
  write("src/tools/plan/a.cpp",
        "// \"bert\" in a comment\nbool f(const S& s) { return s == \"bert\" || s.find(\"BertForMaskedLM\"); }\n"
        "const char* kSuffix = \"ForCausalLM\";\nconst char* kText = \"expected bert, For Example\";\n"
        "const auto type = config.get_string(\"model_type\", R\"(bert)\");\n");
  write("python/transom/a.py", "\"\"\"About bert.\"\"\"\nNAMES = ['bert', 'AutoModelForMaskedLM']  # 'bert'\n");
  EXPECT_EQ(places("families"), Json({{"python/transom/a.py", 1}, {"src/tools/plan/a.cpp", 3}}));
  EXPECT_EQ(places("class-names"), Json({{"src/tools/plan/a.cpp", 1}}));
  EXPECT_EQ(places("model-types"), Json({{"src/tools/plan/a.cpp", 1}}));
}

TEST_F(CountDebtsOf, ThreadsTypesAndFolders) {
  write("src/a/a.cpp", "thread_local int x;  // thread_local\n");
  for (const char* file : {"src/a/one.h", "src/b/two.h"})
    write(file, "namespace transom {\nstruct Range {\n};\n}  // namespace transom\n");
  for (int i = 0; i < 25; ++i) write("backends/c/" + std::to_string(i) + ".h", "");
  EXPECT_EQ(places("thread-locals"), Json({{"src/a/a.cpp", 1}}));
  EXPECT_EQ(places("types"), Json({{"transom::Range", 1}}));
  EXPECT_EQ(places("folders"), Json::object());
  write("backends/c/more.h", "");
  EXPECT_EQ(places("folders"), Json({{"backends/c", 26}}));
}

TEST_F(CountDebtsOf, LongFunctions) {
  std::string lines;
  for (int i = 0; i < 78; ++i) lines += "  call(\"}\");\n";
  const std::string longer = lines + "  if (x) {\n  }\n";
  write("src/a/short.cpp", "namespace transom {\nnamespace {\nint f(int x = (3)) {\n" + lines + "}\n}\n}\n");
  write("src/a/table.cpp", "const std::vector<int> kTable = {\n" + longer + "};\nstruct S {\n" + longer + "};\n");
  EXPECT_EQ(places("functions"), Json::object());
  write("src/a/long.cpp", "int f(\n    int x) {\n" + longer + "}\n");
  write("src/a/member.cpp", "class A : public B {\n public:\n  A() : b_{3} {\n" + longer + "  }\n};\n");
  write("src/a/record.cpp", "const Operation kOne = {\n    .infer = [](const R& r) {\n" + longer + "}};\n");
  EXPECT_EQ(places("functions"), Json({{"src/a/long.cpp", 1}, {"src/a/member.cpp", 1}, {"src/a/record.cpp", 1}}));
}

TEST_F(CountDebtsOf, NumbersGoDownOnly) {
  write("scripts/debts.json", R"({"families": {"src/a.cpp": 1, "src/b.cpp": [2, "its reason"]}})");
  write("src/a.cpp", "const char* kNames[] = {\"bert\", \"bert\"};\n");
  write("src/b.cpp", "const char* kName = \"bert\";\n");
  const auto outcome = run("--check");
  EXPECT_EQ(outcome.status, 1);
  EXPECT_EQ(outcome.output,
            "src/a.cpp: families: expected 1, found 2: see scripts/count-debts\n"
            "src/b.cpp: families: expected 2, found 1: lower the number in scripts/debts.json\n");
  EXPECT_EQ(run("--lower").output, "src/a.cpp: families: expected 1, found 2: see scripts/count-debts\n");
  write("src/a.cpp", "\n");
  EXPECT_EQ(run("--lower").status, 0);
  std::ifstream file(folder_.path() / "scripts/debts.json");
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  EXPECT_EQ(parse_json(text, "debts").at("families"), Json({{"src/b.cpp", {1, "its reason"}}}));
}

}  // namespace
}  // namespace transom
