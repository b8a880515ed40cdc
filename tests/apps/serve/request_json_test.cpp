// SPDX-License-Identifier: Apache-2.0
#include "apps/serve/api/request_json.h"

#include <gtest/gtest.h>

#include "support/message.h"

namespace transom::serve {
namespace {

std::string refusal_of(const std::string& text) {
  return test::message_of([&] { parse_request_json(text); });
}

std::string object_of(int keys) {
  std::string text = "{";
  for (int i = 0; i < keys; ++i) text += (i ? ",\"" : "\"") + std::to_string(i) + "\":0";
  return text + "}";
}

TEST(RequestJson, IsReadAsStrictlyAsHostileTextMustBe) {
  EXPECT_EQ(parse_request_json(R"({"a":[1,2.5,"é\ud83d\ude00"]})")["a"].size(), 3u);
  for (const std::string& text :
       {std::string(""), std::string(" \n"), std::string("{"), std::string("{\"a\":1}x"), std::string("[1e400]"),
        std::string("NaN"), std::string("{\"a\":1,\"a\":2}"), std::string("\"\xff\""), std::string("\"\xc0\xaf\""),
        std::string("\"\xed\xa0\x80\""), std::string(R"("\ud800")"), std::string(R"("\udc00x")"),
        std::string("\"a\0b\"", 5), std::string(100, '['), std::string("01"), std::string("'a'")})
    EXPECT_NE(refusal_of(text), "") << text;
}

TEST(RequestJson, ErrorsSayWhatIsWrong) {
  EXPECT_EQ(refusal_of(R"({"a":1e999})"),
            "the body is not valid JSON: a number is larger than 64 bits can hold: '1e999'");
  EXPECT_EQ(refusal_of("{x"), "the body is not valid JSON: line 1, column 2: is not valid JSON at 'x'");
  // Of a text inside the body, the field.
  EXPECT_EQ(parse_json_field(R"({"a":1})", "f")["a"], 1);
  EXPECT_EQ(test::message_of([] { parse_json_field("{x", "guided_json"); }),
            "guided_json: line 1, column 2: is not valid JSON at 'x'");
  EXPECT_EQ(test::message_of([] { parse_json_field(R"({"a":1,"a":2})", "guided_json"); }),
            "guided_json: the JSON holds the key 'a' twice");
}

// Keys are looked up one by one, so that many in one object take long: of many such objects are not all read.
TEST(RequestJson, ObjectsOfManyKeysAreBounded) {
  EXPECT_EQ(refusal_of(object_of(4096)), "");
  EXPECT_NE(refusal_of(object_of(4097)).find("4096 keys"), std::string::npos);
  std::string many = "[" + object_of(4000);
  for (int i = 0; i < 100; ++i) many += "," + object_of(4000);
  EXPECT_NE(refusal_of(many + "]").find("many keys"), std::string::npos);
  std::string small = "[{}";
  for (int i = 0; i < 50'000; ++i) small += R"(,{"role":"user","content":"a"})";
  EXPECT_EQ(refusal_of(small + "]"), "");
}

TEST(RequestJson, FieldsHaveTypesAndRanges) {
  const Json body = Json::parse(
      R"({"a":18446744073709551615,"b":5.0,"c":1e300,"d":-9223372036854775808,"e":null,"f":99999999999999999999999})");
  RequestFields fields(body);
  EXPECT_NE(test::message_of([&] { fields.integer("a", INT64_MIN, INT64_MAX); }), "");
  EXPECT_EQ(fields.integer("b", 0, 10), 5);
  EXPECT_NE(test::message_of([&] { fields.integer("c", INT64_MIN, INT64_MAX); }), "");
  EXPECT_EQ(fields.integer("d", INT64_MIN, INT64_MAX), INT64_MIN);
  EXPECT_FALSE(fields.integer("e", 0, 1));
  EXPECT_NE(test::message_of([&] { fields.integer("f", INT64_MIN, INT64_MAX); }), "");
  EXPECT_EQ(fields.unknown(), std::vector<std::string>{});
}

}  // namespace
}  // namespace transom::serve
