// SPDX-License-Identifier: Apache-2.0
#include "files/config/config.h"

#include <gtest/gtest.h>

#include "base/json/json.h"
#include "support/message.h"

namespace transom {
namespace {

Config example() {
  return Config::parse(R"({"hidden_size": 12, "act": "gelu", "none": null, "sizes": [1, 2], "inner": {"b": 1.5}})",
                       "config.json");
}

TEST(Config, GivesAnyFieldAsJson) {
  const Config config = example();
  EXPECT_EQ(config.get_json("hidden_size"), "12");
  EXPECT_EQ(config.get_json("act"), "\"gelu\"");
  EXPECT_EQ(config.get_json("sizes"), "[1, 2]");
  EXPECT_EQ(config.get_json("inner"), "{\"b\": 1.5}");
  EXPECT_EQ(config.get_json("none"), "null");
  EXPECT_EQ(config.get_json("absent"), "null");
}

TEST(Config, FieldsAreSetFromJson) {
  Config config = example();
  const Config before = config;
  config.set_json("hidden_size", "24");
  config.set_json("new", "[\"a\", \"b\"]");
  EXPECT_EQ(config.get_int("hidden_size"), 24);
  EXPECT_EQ(config.get_strings("new"), (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(before.get_int("hidden_size"), 12) << "copies are independent";
  EXPECT_FALSE(before.has("new"));
  const std::string message = test::message_of([&] { config.set_json("act", "gelu"); });
  EXPECT_NE(message.find("config.json: act"), std::string::npos) << message;
  EXPECT_EQ(config.get_string("act"), "gelu") << "a text that is no JSON changes nothing";
}

TEST(Config, WrongTypesAreNamed) {
  const Config config = example();
  const std::string message = test::message_of([&] { config.get_int("act"); });
  for (const char* part : {"config.json", "act", "whole number", "gelu"})
    EXPECT_NE(message.find(part), std::string::npos) << message;
  EXPECT_EQ(config.get_object("inner").get_float("b"), 1.5);
  EXPECT_NE(config.get_object("inner").where().find("inner"), std::string::npos);
  EXPECT_TRUE(config.get_object("absent").keys().empty());
}

TEST(Config, AssignmentCopiesFieldsAndPlace) {
  Config config = Config::parse("{}", "other");
  config = example();
  EXPECT_EQ(config.where(), "config.json");
  EXPECT_EQ(json_of(config)["hidden_size"], 12);
  config = *&config;
  EXPECT_EQ(config.get_int("hidden_size"), 12);
}

}  // namespace
}  // namespace transom
