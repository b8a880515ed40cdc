// SPDX-License-Identifier: Apache-2.0
#include "work/generation/constraint/structural_tags.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "base/json/json.h"
#include "support/message.h"
#include "work/generation/constraint/constraint.h"

namespace transom {
namespace {

using constraint::Kind;
using constraint::Vocabulary;

// A token for each byte, longer ones, and 300, which ends texts.
std::shared_ptr<const Vocabulary> vocabulary() {
  static const auto made = [] {
    std::vector<std::string> tokens;
    for (int byte = 0; byte < 256; ++byte) tokens.emplace_back(1, static_cast<char>(byte));
    for (const char* more : {"<f", "=a>{\"", "text <f=a", "}</f>", "}</f> and"}) tokens.emplace_back(more);
    tokens.resize(301);
    return std::make_shared<const Vocabulary>(tokens, std::vector<int64_t>{300});
  }();
  return made;
}

// How far the text may be written, byte by byte or by these tokens, and whether it may end there.
struct Way {
  size_t bytes = 0;
  bool may_end = false;
};
Way way_of(const std::string& tags, const std::string& text) {
  const auto state = constraint::make_constraint(vocabulary(), Kind::kStructuralTags, tags)->clone();
  Way way;
  std::vector<uint32_t> mask(10);
  const auto allows = [&](size_t token) { return (mask[token / 32] >> (token % 32) & 1) != 0; };
  state->allowed(mask);
  for (const char c : text) {
    if (!allows(static_cast<unsigned char>(c))) break;
    state->accept(static_cast<unsigned char>(c));
    state->allowed(mask);
    ++way.bytes;
  }
  way.may_end = allows(300);
  return way;
}

const std::string kTags = R"({"triggers": ["<f="], "structures": [
  {"begin": "<f=a>", "schema": {"type": "object", "properties": {"x": {"type": "boolean"}}, "required": ["x"],
   "additionalProperties": false}, "end": "</f>"},
  {"begin": "<f=b>", "schema": {"enum": [1, 2]}, "end": "</f>"}]})";

TEST(StructuralTags, LeaveTextFreeAndShapeWhatATriggerBegins) {
  for (const std::string text :
       {"", "Any text, < <f <<f it", "<f=b>1</f>", "See <f=a>{\"x\": true}</f> and <f=b>2</f>, é"}) {
    const Way way = way_of(kTags, text);
    EXPECT_EQ(way.bytes, text.size()) << text;
    EXPECT_TRUE(way.may_end) << text;
  }
  // How far it comes, where it goes wrong.
  for (const auto& [text, bytes] : std::vector<std::pair<std::string, size_t>>{
           {"a <f=c>", 5}, {"<f=b>3", 5}, {"<f=a>{\"y\"", 7}, {"<f=a>{\"x\": true} ", 16}, {"<f=b>1</g>", 8}}) {
    const Way way = way_of(kTags, text);
    EXPECT_EQ(way.bytes, bytes) << text;
    EXPECT_FALSE(way.may_end) << text;
  }
}

TEST(StructuralTags, TokensMayCrossTheMarks) {
  const auto state = constraint::make_constraint(vocabulary(), Kind::kStructuralTags, kTags)->clone();
  std::vector<uint32_t> mask(10);
  const auto allows = [&](size_t token) {
    state->allowed(mask);
    return (mask[token / 32] >> (token % 32) & 1) != 0;
  };
  EXPECT_TRUE(allows(258));  // text <f=a
  EXPECT_TRUE(allows(256));
  state->accept(256);        // <f
  EXPECT_TRUE(allows(257));  // =a>{"
  state->accept(257);
  EXPECT_FALSE(allows(258));
  for (const char c : std::string("x\": false")) state->accept(static_cast<unsigned char>(c));
  EXPECT_TRUE(allows(259));
  EXPECT_TRUE(allows(260));  // }</f> and
  EXPECT_FALSE(allows(300));
  state->accept(260);
  EXPECT_TRUE(allows(300));
}

TEST(StructuralTags, MayBeNeededAndMayEndTheText) {
  Json tags = parse_json(kTags, "tags");
  tags["at_least_one"] = true;
  EXPECT_FALSE(way_of(dump_json(tags), "text").may_end);
  EXPECT_TRUE(way_of(dump_json(tags), "text <f=b>1</f> text").may_end);
  tags["stop_after_first"] = true;
  EXPECT_EQ(way_of(dump_json(tags), "<f=b>1</f> ").bytes, 10u);
  EXPECT_TRUE(way_of(dump_json(tags), "<f=b>1</f>").may_end);
}

TEST(StructuralTags, HaveSeveralTriggers) {
  const std::string tags = R"({"triggers": ["<a", "<ab>", "["], "structures": [
    {"begin": "<a>", "schema": {"const": 1}, "end": ""}, {"begin": "[", "schema": {"const": 2}, "end": "]"}]})";
  EXPECT_TRUE(way_of(tags, "x<a>1y[2]z").may_end);
  EXPECT_EQ(way_of(tags, "<ab").bytes, 2u);
  EXPECT_EQ(way_of(tags, "[[").bytes, 1u);
}

TEST(StructuralTags, AreRefusedByTheirPlace) {
  const auto refused = [](const std::string& tags) {
    return test::message_of([&] { constraint::structural_tags_grammar(parse_json(tags, "tags")); });
  };
  EXPECT_NE(refused(R"({"triggers": []})").find("triggers: expected a list"), std::string::npos);
  EXPECT_NE(refused(R"({"triggers": ["<"], "structures": [{"begin": "(", "schema": true, "end": ""}]})")
                .find("structures[0].begin: expected one of the triggers"),
            std::string::npos);
  EXPECT_NE(refused(R"({"triggers": ["<"], "structures": [{"begin": "<", "end": ""}]})").find("structures[0].schema"),
            std::string::npos);
  EXPECT_NE(refused(R"({"triggers": ["<"], "structures": [{"begin": "<", "schema": {"type": "odd"}, "end": ""}]})")
                .find("structures[0].schema: "),
            std::string::npos);
}

}  // namespace
}  // namespace transom
