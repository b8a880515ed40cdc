// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/protobuf/wire_reader.h"
#include "base/protobuf/wire_writer.h"
#include "support/message.h"

namespace transom {
namespace {

const std::string kWhere = "a.pb";

TEST(Wire, WhatIsWrittenIsRead) {
  WireWriter inner, outer;
  inner.number(1, -3);
  inner.number32(2, 0.5f);
  outer.message(7, inner);
  outer.number64(536870911, 1.25);
  outer.bytes(2, std::string(300, 'x'));
  WireReader reader(outer.text(), kWhere, "file");
  const auto message = reader.next();
  ASSERT_TRUE(message && message->number == 7);
  WireReader fields(reader.text(*message), kWhere, "file");
  EXPECT_EQ(fields.integer(fields.next().value()), -3);
  EXPECT_EQ(fields.number(fields.next().value()), 0.5f);
  EXPECT_FALSE(fields.next());
  std::vector<double> doubles;
  const auto large = reader.next();
  ASSERT_TRUE(large && large->number == 536870911);
  reader.add_doubles(*large, doubles);
  EXPECT_EQ(doubles, std::vector<double>{1.25});
  EXPECT_EQ(reader.text(reader.next().value()).size(), 300u);
  EXPECT_FALSE(reader.next());
}

// Every cut of a message is refused or ends at the end of a field; nothing is read behind it.
TEST(Wire, CutMessagesAreRefused) {
  WireWriter writer;
  writer.number(1, 300);
  writer.bytes(2, "abc");
  writer.number64(3, 1);
  size_t whole = 0;
  for (size_t length = 0; length < writer.text().size(); ++length) {
    const std::string text = writer.text().substr(0, length);
    try {
      WireReader reader(text, kWhere, "file");
      while (reader.next()) {
      }
      ++whole;
    } catch (const Error& error) {
      EXPECT_TRUE(std::string(error.what()).starts_with("a.pb: is no file")) << error.what();
    }
  }
  EXPECT_EQ(whole, 3u);  // behind each field, and before the first
}

}  // namespace
}  // namespace transom
