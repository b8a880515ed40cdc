// SPDX-License-Identifier: Apache-2.0
#include "tools/client/event_stream.h"

#include <gtest/gtest.h>

#include <vector>

namespace transom::client {
namespace {

using Events = std::vector<std::string>;

Events events_of(const std::string& text, size_t piece, bool end = true) {
  Events events;
  EventStream stream([&](std::string_view data) { events.emplace_back(data); });
  for (size_t at = 0; at < text.size(); at += piece) EXPECT_TRUE(stream.add(std::string_view(text).substr(at, piece)));
  if (end) stream.end();
  return events;
}

TEST(EventStream, IsTheSameHoweverItIsCut) {
  const std::string text =
      ": a comment\n\ndata: {\"a\": 1}\n\nevent: x\ndata:second\ndata: line\nid: 3\n\ndatabase: no\n\n"
      "data: with CR\r\n\r\ndata\n\ndata: [DONE]\n\n";
  const Events expected{"{\"a\": 1}", "second\nline", "with CR", "", "[DONE]"};
  for (size_t piece = 1; piece <= text.size(); ++piece) EXPECT_EQ(events_of(text, piece), expected) << piece;
}

TEST(EventStream, TakesAnEndWithoutAnEmptyLine) {
  EXPECT_EQ(events_of("data: a\n\ndata: b", 3), (Events{"a", "b"}));
  EXPECT_EQ(events_of("data: a\n\ndata: b", 3, false), Events{"a"});
  EXPECT_EQ(events_of("", 1), Events{});
}

TEST(EventStream, HasABound) {
  EventStream stream([](std::string_view) { FAIL(); });
  const std::string piece(1 << 20, 'x');
  bool taken = true;
  for (int i = 0; i < 70 && taken; ++i) taken = stream.add(piece);
  EXPECT_FALSE(taken);
  EXPECT_FALSE(stream.add("\n\n"));
  stream.end();
}

}  // namespace
}  // namespace transom::client
