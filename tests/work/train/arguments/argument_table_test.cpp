// SPDX-License-Identifier: Apache-2.0
#include "work/train/arguments/argument_table.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "base/json/json.h"

namespace transom {
namespace {

struct Record {
  bool flag = true;
  std::optional<int64_t> count;
  std::vector<std::string> words = {"one"};
};

const Argument kTable[] = {
    section("All"),
    field<&Record::flag>("flag", "A flag."),
    field<&Record::count>("count", "A count.").at_least(1),
    field<&Record::words>("words", "Words."),
    alias("number", "count"),
    ignored("colour", "there is none"),
    only_default("shape", {"", "round"}, "all are round"),
};

TEST(ArgumentTable, FlagsJsonHelpAndWritingFollowFromTheRows) {
  Record record;
  const BoundTable bound{kTable, &record};
  std::vector<std::string> notes;
  std::string mine;
  const std::vector<Option> own = {{.name = "--mine", .value = &mine}};
  EXPECT_FALSE(assign_flags(
      {&bound, 1}, {"--no_flag", "--number", "3", "--words", "a", "b", "--mine", "x", "--colour", "red"}, own, notes));
  EXPECT_EQ(dump_json(write_fields(bound)), R"({"flag": false, "count": 3, "words": ["a", "b"]})");
  EXPECT_EQ(mine, "x");
  EXPECT_EQ(notes, (std::vector<std::string>{"colour has no effect: there is none"}));
  assign_all({&bound, 1}, parse_json(R"({"count": null, "words": "c", "shape": "round"})", "a"), "a.json", notes);
  EXPECT_FALSE(record.count);
  assign({&bound, 1}, "words", parse_json("[16, 0.5, \"c\"]", "a"), "a.json", notes);  // as flags have numbers
  EXPECT_EQ(record.words, (std::vector<std::string>{"16", "0.5", "c"}));
  assign({&bound, 1}, "words", parse_json("[\"c\"]", "a"), "a.json", notes);
  EXPECT_EQ(describe(bound),
            "\nAll:\n"
            "  --flag [true|false]           A flag. (default: false)\n"
            "  --count N                     A count.\n"
            "  --words TEXT ...              Words. (default: [\"c\"])\n");
}

TEST(ArgumentTable, Refusals) {
  Record record;
  const BoundTable bound{kTable, &record};
  std::vector<std::string> notes;
  const auto flags = [&](const std::vector<std::string>& words) { assign_flags({&bound, 1}, words, {}, notes); };
  EXPECT_THROW(flags({"--count", "0"}), Error);
  EXPECT_THROW(flags({"--count", "1", "2"}), Error);
  EXPECT_THROW(flags({"--no_count"}), Error);
  EXPECT_THROW(flags({"--no_flag", "true"}), Error);
  EXPECT_THROW(flags({"--shape", "square"}), Error);
  EXPECT_THROW(flags({"--", "word"}), Error);
  EXPECT_THROW(assign({&bound, 1}, "count", parse_json("1.5", "a"), "", notes), Error);
  EXPECT_THROW(assign({&bound, 1}, "words", parse_json("[true]", "a"), "", notes), Error);
}

TEST(ArgumentTable, NameValues) {
  using Pairs = std::vector<std::pair<std::string, std::string>>;
  EXPECT_EQ(name_values("a=1, b = two ,", "optim_args"), (Pairs{{"a", "1"}, {"b", "two"}}));
  EXPECT_EQ(name_values("", "optim_args"), Pairs{});
  EXPECT_THROW(name_values("a", "optim_args"), Error);
  EXPECT_THROW(name_values("=a", "optim_args"), Error);
}

}  // namespace
}  // namespace transom
