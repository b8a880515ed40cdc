// SPDX-License-Identifier: Apache-2.0
#include "base/text/numbers.h"

#include <gtest/gtest.h>

#include <cmath>

#include "base/json/json.h"
#include "support/german_locale.h"

namespace transom {
namespace {

TEST(Numbers, AreThoseOfTheWholeText) {
  EXPECT_EQ(parse_double("0.5"), 0.5);
  EXPECT_EQ(parse_double("+1e-3"), 1e-3);
  EXPECT_EQ(parse_double("-7"), -7);
  EXPECT_TRUE(std::isnan(parse_double("nan").value()));
  EXPECT_TRUE(std::isinf(parse_double("inf").value()));
  for (const char* text : {"", "+", "+-1", "1,5", "1.5 ", " 1", "0x10", "one"})
    EXPECT_FALSE(parse_double(text)) << text;
}

TEST(Numbers, BeyondTheRangeAreInfiniteOrNothing) {
  EXPECT_EQ(parse_double("1e999"), INFINITY);
  EXPECT_EQ(parse_double("-1e999"), -INFINITY);
  EXPECT_EQ(parse_double("1e-999"), 0);
  EXPECT_EQ(parse_double("1" + std::string(400, '0')), INFINITY);
  EXPECT_EQ(parse_double("0." + std::string(400, '0') + "1"), 0);
}

TEST(Numbers, TruthIsThatOfHfArgumentParser) {
  for (const char* text : {"true", "True", "YES", "t", "y", "1"}) EXPECT_EQ(parse_bool(text), true) << text;
  for (const char* text : {"false", "FALSE", "No", "f", "n", "0"}) EXPECT_EQ(parse_bool(text), false) << text;
  for (const char* text : {"", "on", "2", "true "}) EXPECT_EQ(parse_bool(text), std::nullopt) << text;
}

TEST(Numbers, DoNotDependOnTheLocale) {
  const test::GermanLocale locale;
  EXPECT_EQ(parse_double("0.7"), 0.7);
  EXPECT_FALSE(parse_double("0,7"));
  EXPECT_EQ(parse_json("[0.7, 1e-3, 1234567]", "here"), (Json{0.7, 1e-3, 1234567}));
  EXPECT_EQ(dump_json(Json{0.7, 1234567}), "[0.7, 1234567]");
}

}  // namespace
}  // namespace transom
