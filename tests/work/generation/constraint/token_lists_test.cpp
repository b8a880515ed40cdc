// SPDX-License-Identifier: Apache-2.0
#include "work/generation/constraint/token_lists.h"

#include <gtest/gtest.h>

namespace transom::constraint {
namespace {

constexpr int64_t kEnd = 40;

std::vector<int64_t> allowed(TokenConstraint& state) {
  std::vector<uint32_t> mask(2);
  state.allowed(mask);
  std::vector<int64_t> tokens;
  for (int64_t token = 0; token < 64; ++token)
    if (mask[static_cast<size_t>(token) / 32] >> (token % 32) & 1) tokens.push_back(token);
  return tokens;
}

std::shared_ptr<const TokenConstraint> lists(TokenLists given,
                                             const std::shared_ptr<const TokenConstraint>& rest = {}) {
  return by_token_lists(std::make_shared<const TokenLists>(std::move(given)), {kEnd}, rest);
}

TEST(TokenLists, AllowTheirsAlone) {
  const auto state = lists({.allowed = {3, 35, 700}, .forbidden = {}})->clone();
  EXPECT_EQ(allowed(*state), (std::vector<int64_t>{3, 35}));
  state->accept(3);
  EXPECT_EQ(allowed(*state), (std::vector<int64_t>{3, 35}));
}

TEST(TokenLists, ForbidWhatEndsASequence) {
  const auto state = lists({.allowed = {1, 2, 3}, .forbidden = {{1, 2, 3}, {2, 2}}})->clone();
  state->accept(1);
  EXPECT_EQ(allowed(*state), (std::vector<int64_t>{1, 2, 3}));
  state->accept(2);
  EXPECT_EQ(allowed(*state), (std::vector<int64_t>{1}));
  const auto copy = state->clone();
  state->accept(1);
  EXPECT_EQ(allowed(*state), (std::vector<int64_t>{1, 2, 3}));
  EXPECT_EQ(allowed(*copy), (std::vector<int64_t>{1}));
}

TEST(TokenLists, EndTheTextWhereNothingIsLeft) {
  const auto state = lists({.allowed = {5}, .forbidden = {{5}}})->clone();
  EXPECT_EQ(allowed(*state), (std::vector<int64_t>{kEnd}));
}

TEST(TokenLists, NarrowAnotherConstraint) {
  const auto rest = lists({.allowed = {5, 6, 7}, .forbidden = {}});
  const auto state = lists({.allowed = {6, 7, 8}, .forbidden = {{7}}}, rest)->clone();
  EXPECT_EQ(allowed(*state), (std::vector<int64_t>{6}));
}

}  // namespace
}  // namespace transom::constraint
