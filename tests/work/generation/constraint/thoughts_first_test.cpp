// SPDX-License-Identifier: Apache-2.0
#include "work/generation/constraint/thoughts_first.h"

#include <gtest/gtest.h>

#include "support/scripted_model.h"

namespace transom {
namespace {

using constraint::Kind;
using constraint::ThoughtRules;
using constraint::Vocabulary;

// Bytes, and the marks as tokens of their own or of several bytes.
class ThoughtsFirst : public testing::TestWithParam<bool> {
 protected:
  ThoughtsFirst()
      : tokenizer_(Tokenizer::from_json(dump_json(test::byte_tokenizer(
            {"</s>"}, GetParam() ? std::vector<std::string>{"<t>", "</t>"} : std::vector<std::string>{})))),
        end_(*tokenizer_.token_to_id("</s>")),
        vocabulary_(std::make_shared<const Vocabulary>(tokenizer_, std::vector<int64_t>{end_})) {}

  std::unique_ptr<TokenConstraint> begin(ThoughtRules rules, const std::string& choices = "") const {
    rules.open = "<t>", rules.close = "</t>", rules.forced_close = "</t>";
    const auto rest = choices.empty() ? nullptr : constraint::make_constraint(vocabulary_, Kind::kChoices, choices);
    return constraint::thoughts_first(vocabulary_, tokenizer_, rules, rest)->clone();
  }
  // What is written where the model would write `wish`, a token each time the constraint allows it, else the only one
  // that is allowed, else the lowest.
  std::string written(TokenConstraint& state, const std::string& wish, size_t most) const {
    const std::vector<int64_t> wished = tokenizer_.encode(wish).ids;
    std::vector<int64_t> tokens;
    std::vector<uint32_t> mask((static_cast<size_t>(tokenizer_.vocab_size()) + 31) / 32);
    for (size_t i = 0; i < most; ++i) {
      state.allowed(mask);
      const auto allows = [&](int64_t token) {
        return (mask[static_cast<size_t>(token) / 32] >> (token % 32) & 1) != 0;
      };
      int64_t token = i < wished.size() ? wished[i] : end_;
      for (int64_t each = 0; !allows(token); ++each) token = each;
      if (token == end_) break;
      state.accept(token);
      tokens.push_back(token);
    }
    return tokenizer_.decode(tokens);
  }
  Tokenizer tokenizer_;
  int64_t end_;
  std::shared_ptr<const Vocabulary> vocabulary_;
};

TEST_P(ThoughtsFirst, EndByTheirBudget) {
  // As long as they fit, nothing changes.
  EXPECT_EQ(written(*begin({.budget = 9}), "<t>abc</t>xyz", 40), "<t>abc</t>xyz");
  EXPECT_EQ(written(*begin({.budget = 3}), "no thoughts at all", 40), "no thoughts at all");
  EXPECT_TRUE(written(*begin({.budget = 3}), "<t>abcdefghijklmnop", 40).starts_with("<t>abc</t>"));
  EXPECT_TRUE(written(*begin({.begun = true, .budget = 2}), "abcdefghijklmnop", 40).starts_with("ab</t>"));
  EXPECT_TRUE(written(*begin({.begun = true, .budget = 0}), "abcdefghijklmnop", 40).starts_with("</t>"));
}

TEST_P(ThoughtsFirst, StandBeforeWhatIsConstrained) {
  const std::string choices = R"(["yes", "no"])";
  EXPECT_EQ(written(*begin({.begun = true}, choices), "any</t>yes", 40), "any</t>yes");
  EXPECT_EQ(written(*begin({}, choices), "<t>any</t>no", 40), "<t>any</t>no");
  EXPECT_EQ(written(*begin({}, choices), "yes", 40), "yes");
  // Where it may not think, the answer begins at once.
  EXPECT_FALSE(written(*begin({.may_begin = false}, choices), "<t>any</t>no", 40).starts_with("<"));
  // The text does not end within the thoughts, as the answer is still to come.
  const std::string text = written(*begin({.begun = true, .budget = 6}, choices), "a", 40);
  EXPECT_TRUE(text.ends_with("</t>yes") || text.ends_with("</t>no")) << text;
}

TEST_P(ThoughtsFirst, CopiesGoOnByThemselves) {
  const auto first = begin({.begun = true, .budget = 4});
  first->accept('a');
  const auto second = first->clone();
  EXPECT_TRUE(written(*first, "bcdefghijkl", 20).starts_with("bcd</t>"));
  EXPECT_TRUE(written(*second, "xyz", 20).starts_with("xyz</t>"));
}

INSTANTIATE_TEST_SUITE_P(Marks, ThoughtsFirst, testing::Bool(),
                         [](const auto& info) { return info.param ? "tokens" : "bytes"; });

}  // namespace
}  // namespace transom
