// SPDX-License-Identifier: Apache-2.0
#include "files/config/known_keys.h"

#include <gtest/gtest.h>

#include "base/json/json.h"
#include "base/terminal/log.h"
#include "files/config/config.h"
#include "support/message.h"

namespace transom {
namespace {

constexpr KnownKey kKeys[] = {{"remark"}, {"scale", "1 or null"}, {"kinds", "\"full\""}, {"flag", "false"}};

// What is said of an object of which `read` is read.
std::string said_of(const std::string& json, const std::string& read = "") {
  std::string said;
  set_log_sink([&](LogLevel, std::string_view text) { said += text; });
  static int number = 0;  // a file is reported once
  check_known_keys(parse_json(json, "it"), "file" + std::to_string(++number), kKeys,
                   [&](const std::string& key) { return key == read; });
  set_log_sink({});
  return said;
}

TEST(KnownKeys, ThatAreReadOrHaveNoEffectAreSilent) {
  EXPECT_EQ(said_of(R"({"remark": 7, "scale": 1.0, "flag": false, "mine": 3, "_private": 4, "other": null})", "mine"),
            "");
  EXPECT_EQ(said_of(R"({"scale": 1, "kinds": ["full", "full"]})"), "");
  EXPECT_EQ(said_of(R"({"scale": 12})", "scale"), "") << "who reads it carries it out";
}

TEST(KnownKeys, ThatChangeResultsAreRefusedByNameAndValue) {
  EXPECT_NE(test::message_of([] { said_of(R"({"scale": 12})"); }).find("scale = '12' is not carried out; only 1"),
            std::string::npos);
  EXPECT_NE(test::message_of([] { said_of(R"({"flag": true})"); }).find("flag = 'true'"), std::string::npos);
  EXPECT_NE(test::message_of([] { said_of(R"({"kinds": ["full", "slides"]})"); }).find("kinds"), std::string::npos);
  set_log_sink({});
}

TEST(KnownKeys, ThatNobodyKnowsAreNamedInOneLine) {
  const std::string said = said_of(R"({"b": 1, "a": {"x": 2}, "remark": 7})");
  EXPECT_NE(said.find("not known and left out: 'b', 'a'"), std::string::npos) << said;
}

TEST(KnownKeys, OfAConfigAreThoseThatWereAskedForInAnyCopy) {
  const Config config = Config::parse(R"({"a": 1, "b": 2, "c": 3})", "it");
  Config copy = config;
  copy.get_int("a");
  set_field(copy, "d", 4);
  EXPECT_TRUE(was_read(config, "a"));
  EXPECT_FALSE(was_read(config, "b"));
  copy.has("b");
  EXPECT_TRUE(was_read(config, "b"));
  EXPECT_FALSE(was_read(Config::parse(R"({"a": 1})", "it"), "a")) << "another file";
}

}  // namespace
}  // namespace transom
