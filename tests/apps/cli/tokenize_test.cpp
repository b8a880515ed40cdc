// SPDX-License-Identifier: Apache-2.0
// transom tokenize from outside: texts, standard input, text files and JSON lines.
#include <gtest/gtest.h>

#include "apps/cli/program.h"
#include "base/files/files.h"
#include "base/json/json.h"
#include "support/word_models.h"

namespace transom {
namespace {

class Tokenize : public testing::Test {
 protected:
  Tokenize() { test::save_word_tokenizer(folder_); }
  std::string call() const { return "tokenize --tokenizer " + folder_.string() + " "; }
  std::string file(const std::string& name, const std::string& text) {
    write_file(folder_ / name, text);
    return (folder_ / name).string();
  }
  test::TemporaryFolder folder_;
};

TEST_F(Tokenize, ShowsTokensAndIds) {
  const test::CommandOutcome outcome = run(call() + "'w3 w10'");
  EXPECT_EQ(outcome.status, 0);
  EXPECT_EQ(outcome.output, "w3  w10\n3   10\n");
  EXPECT_EQ(run(call() + "-", "printf 'w3 w10\\n' | ").output, outcome.output);
  EXPECT_EQ(run("tokenize --model " + folder_.string() + " 'w3 w10'").output, outcome.output);
}

TEST_F(Tokenize, WritesJsonLines) {
  const std::string json = run(call() + "'w3 w10' --json").output;
  EXPECT_EQ(parse_json(json, "output")["ids"], (Json{3, 10}));
  EXPECT_EQ(run(call() + "--inputs " + file("in.txt", "w3 w10\n")).output, json);
  EXPECT_EQ(run(call() + "--inputs " + file("in.jsonl", "{\"text\": \"w3 w10\"}\n")).output, json);
  EXPECT_EQ(run(call() + "--inputs -", "printf 'w3 w10\\n' | ").output, json);
  EXPECT_EQ(run(call() + "--inputs -", "printf '{\"text\": \"w3 w10\"}\\n' | ").output, json);
  const std::string out = (folder_ / "out.jsonl").string();
  EXPECT_EQ(run(call() + "--inputs " + (folder_ / "in.txt").string() + " --outputs " + out).status, 0);
  EXPECT_EQ(read_file(out), json);
}

TEST_F(Tokenize, TakesObjectsInATextFileForWhatTheyAre) {
  const std::string json = run(call() + "'w3 w10' --json").output;
  EXPECT_EQ(run(call() + "--inputs " + file("in.txt", "{\"text\": \"w3 w10\"}\n")).output, json);
  // Others that begin with a brace are texts.
  for (const std::string text : {"{w3} w10", "{\"a\": 1}"}) {
    const test::CommandOutcome outcome = run(call() + "--inputs " + file("in.txt", text + "\n"));
    EXPECT_EQ(outcome.output, run(call() + "'" + text + "' --json").output);
    EXPECT_EQ(outcome.status, 0);
  }
}

TEST_F(Tokenize, WrongCallsSayWhatIsExpected) {
  expect_one_line(run(call()), 2, "expected texts");
  expect_one_line(run(call() + "w1 --outputs x"), 2, "--inputs is missing");
}

}  // namespace
}  // namespace transom
