// SPDX-License-Identifier: Apache-2.0
#include "base/terminal/command_line.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "support/message.h"

namespace transom {
namespace {

using Words = std::vector<std::string>;

// A command of each kind of option.
class CommandLineTest : public testing::Test {
 protected:
  bool parse(const Words& words) { return parse_command_line(options_, words, {.help_command = "p c --help"}); }
  std::string refusal(const Words& words) {
    return test::message_of([&] { parse(words); });
  }

  std::string model_, task_ = "any";
  std::string report_;
  std::optional<std::string> file_, sample_;
  Words inputs_, targets_;
  int64_t count_ = 3;
  double rate_ = 0.5;
  bool json_ = false;
  std::optional<Words> seen_;
  std::vector<Option> options_ = {
      {"TASK", &task_, "what is asked", true},
      {"inputs", &inputs_, "texts"},
      {"--model,--tokenizer", &model_, "a directory", true},
      {"--file", &file_, "a file"},
      {"--targets", &targets_, "words"},
      {"--max_count", &count_, "how many"},
      {.name = "--rate", .value = &rate_, .help = "how fast", .group = "Speed"},
      {"--json", &json_, "as JSON"},
      {.name = "--do_sample", .value = &sample_, .value_optional = true, .words = {"true", "false", "never"}},
      {.name = "--report", .value = &report_, .value_optional = true, .hidden = true},
      {.name = "--set",
       .value = Option::Setter([this](const Words& words) { seen_ = words; }),
       .hidden = true,
       .takes = Option::Words::kOneOrNone}};
};

TEST_F(CommandLineTest, FlagsAndPositionalArgumentsComeInAnyOrder) {
  EXPECT_FALSE(parse({"a", "--model", "m", "x", "--max_count=7", "y", "--json", "--rate", "-2.5e-1", "-"}));
  EXPECT_EQ(task_, "a");
  EXPECT_EQ(inputs_, (Words{"x", "y", "-"}));
  EXPECT_EQ(model_, "m");
  EXPECT_EQ(count_, 7);
  EXPECT_EQ(rate_, -0.25);
  EXPECT_TRUE(json_);
  EXPECT_FALSE(file_);
}

TEST_F(CommandLineTest, NamesHaveSpellings) {
  parse({"a", "--tokenizer=m=1", "--max-count", "5", "--no-json", "--", "--model", "-x"});
  EXPECT_EQ(model_, "m=1");
  EXPECT_EQ(count_, 5);
  EXPECT_FALSE(json_);
  EXPECT_EQ(inputs_, (Words{"--model", "-x"}));
}

TEST_F(CommandLineTest, OfTwoTheLastHoldsAndListsGrow) {
  parse({"a", "--model", "m", "--model", "n", "--targets", "x", "y", "--json", "--targets", "z"});
  EXPECT_EQ(model_, "n");
  EXPECT_EQ(targets_, (Words{"x", "y", "z"}));
}

TEST_F(CommandLineTest, AFlagTakesOnlyWhatCanBeItsValue) {
  parse({"--model", "m", "--do_sample", "a", "text"});
  EXPECT_EQ(sample_, "true");
  EXPECT_EQ(task_, "a");
  parse({"--model", "m", "a", "--do_sample", "off"});
  EXPECT_EQ(sample_, "false");
  parse({"--model", "m", "a", "--do_sample", "never"});
  EXPECT_EQ(sample_, "never");
  parse({"--model", "m", "a", "--no_do_sample"});
  EXPECT_EQ(sample_, "false");
  parse({"--model", "m", "a", "--report"});
  EXPECT_EQ(report_, "-");
  parse({"--model", "m", "a", "--report", "file"});
  EXPECT_EQ(report_, "file");
  parse({"--model", "m", "a", "--set"});
  EXPECT_EQ(seen_, Words{});
  parse({"--model", "m", "a", "--set", "on"});
  EXPECT_EQ(seen_, Words{"on"});
}

TEST_F(CommandLineTest, FaultsNameTheFlag) {
  const Words good = {"a", "--model", "m"};
  const auto with = [&](Words more) {
    more.insert(more.begin(), good.begin(), good.end());
    return refusal(more);
  };
  EXPECT_EQ(refusal({"a"}), "--model is missing: a directory; see p c --help");
  EXPECT_EQ(refusal({"--model", "m"}), "TASK is missing: what is asked; see p c --help");
  EXPECT_EQ(with({"--file"}), "--file: expected a value, found none; see p c --help");
  EXPECT_EQ(with({"--file", "--json"}), "--file: expected a value, found none; see p c --help");
  EXPECT_EQ(with({"--max_count", "1.5"}), "--max_count: expected a whole number, found '1.5'");
  EXPECT_EQ(with({"--max_count", "99999999999999999999"}),
            "--max_count: expected a whole number that 64 bits hold, found '99999999999999999999'");
  EXPECT_EQ(with({"--rate=inf"}), "--rate: expected a number that 64 bits hold, found 'inf'");
  EXPECT_EQ(with({"--json=maybe"}), "--json: expected true or false, found 'maybe'");
  EXPECT_EQ(with({"--no_json=1"}), "--no_json: expected no value, found '1'");
  EXPECT_EQ(with({"--maxcount", "1"}), "unknown argument '--maxcount', did you mean '--max_count'? See p c --help");
  EXPECT_EQ(with({"-x"}), "unknown argument '-x'; write -- before texts that begin with a dash; see p c --help");
  EXPECT_EQ(with({"--no_rate"}).substr(0, 28), "unknown argument '--no_rate'");
  // The misspelt word is what helps, not what is missing because of it.
  EXPECT_NE(refusal({"--modle", "m"}).find("'--model'"), std::string::npos);
}

TEST_F(CommandLineTest, WordsBeyondTheLastArgumentAreRefused) {
  const std::vector<Option> options = {{"--json", &json_, ""}};
  const Words words = {"everything"};
  EXPECT_EQ(test::message_of([&] { parse_command_line(options, words); }), "not expected: 'everything'");
}

TEST_F(CommandLineTest, AnUnknownFlagMayBeExplained) {
  const CommandLine line{.on_unknown = [](const std::string& flag) { fail("{} belongs elsewhere", flag); }};
  const Words words = {"--question", "x"};
  EXPECT_EQ(test::message_of([&] { parse_command_line(options_, words, line); }), "--question belongs elsewhere");
}

TEST_F(CommandLineTest, HelpMissesNothingAndChecksWhatIsThere) {
  EXPECT_TRUE(parse({"--help"}));
  EXPECT_TRUE(parse({"a", "--max_count", "2", "-h"}));
  EXPECT_NE(refusal({"--max_count", "x", "--help"}), "");
  EXPECT_NE(refusal({"--modle", "x", "--help"}), "");
}

TEST_F(CommandLineTest, OptionsAreDescribedInColumns) {
  const std::string text = describe_options(options_);
  EXPECT_NE(text.find("\n  --max_count N                 how many (default: 3)\n"), std::string::npos) << text;
  EXPECT_NE(text.find("\nSpeed:\n  --rate X "), std::string::npos) << text;
  EXPECT_NE(text.find("  --model, --tokenizer TEXT     a directory\n"), std::string::npos) << text;
  EXPECT_EQ(text.find("--set"), std::string::npos) << text;
  EXPECT_EQ(usage_of(options_), "TASK [INPUTS ...] --model TEXT [OPTION ...]");
  const std::string wrapped =
      describe_option({.name = "--x", .value = &json_, .help = std::string(60, 'a') + " " + std::string(60, 'b')});
  EXPECT_EQ(wrapped, "  --x" + std::string(27, ' ') + std::string(60, 'a') + "\n" + std::string(32, ' ') +
                         std::string(60, 'b') + "\n");
}

}  // namespace
}  // namespace transom
