// SPDX-License-Identifier: Apache-2.0
#include "work/generation/constraint/grammar/patterns.h"
#include "work/generation/constraint/schema/facts.h"
#include "work/generation/constraint/schema/schema_texts.h"

namespace transom::constraint {
namespace {

struct Texts {
  const char* format;
  std::vector<std::string> good, bad;
};

// By the RFCs.
const std::vector<Texts> kTexts{
    {"date",
     {"2024-02-29", "2000-02-29", "1999-12-31", "2023-04-30"},
     {"2023-02-29", "1900-02-29", "2023-04-31", "2023-13-01", "2023-00-10", "0000-01-01", "23-01-01"}},
    {"time", {"23:59:59Z", "12:00:00.125+02:00"}, {"24:00:00Z", "12:60:00Z", "12:00:00", "12:00Z"}},
    {"date-time",
     {"2024-02-29T10:20:30Z", "1985-04-12T23:20:50.52Z", "1996-12-19T16:39:57-08:00"},
     {"2024-02-30T10:20:30Z", "1985-04-12 23:20:50Z", "1985-04-12T23:20:50"}},
    {"duration", {"P3Y6M4DT12H30M5S", "PT1H", "P2W", "P1M", "PT36H"}, {"P", "PT", "P1Y2W", "1D", "P1D2H", "PT1D"}},
    {"ipv4", {"0.0.0.0", "255.10.1.9"}, {"256.0.0.1", "1.2.3", "01.2.3.4"}},
    {"ipv6",
     {"::", "::1", "1::", "1:2:3:4:5:6:7:8", "fe80::1:a", "::ffff:192.0.2.1", "1:2:3:4:5:6:1.2.3.4",
      "64:FF9B::1.2.3.4"},
     {":", "1:2:3:4:5:6:7", "1::2::3", "12345::", "1:2:3:4:5:6:7:8:9", "1:2:3:4:5:6:7::8", "::1.2.3"}},
    {"hostname", {"a", "example.com", "xn4-5.Example.org"}, {"-a", "a-", "a..b", "", std::string(64, 'a'), "a_b", "."}},
    {"email", {"joe.bloggs@example.com", "a+b@x", "O'Neil@x.org"}, {"@x", "a@", "a", ".a@x", "a..b@x", "a b@x"}},
    {"uuid", {"2EB8AA08-aa98-11ea-B4AA-73b441d16380"}, {"2eb8aa08aa9811eab4aa73b441d16380", "2eb8aa08-aa98"}},
    {"uri",
     {"http://foo.bar/?baz=qux#quux", "urn:oasis:names:tc", "mailto:a@b.c", "ftp://u:p@[::1]:21/a%20b", "a:"},
     {"//foo.bar/", "/abc", "http:// shouldfail.com", "a", ":a", "http://a/%zz", "\\\\a", "http://[1]/"}},
    {"uri-reference", {"", "/abc", "#a", "../b?c", "//foo.bar", "x:y"}, {"\\\\a", "#a b", ":x"}},
    {"iri", {"http://ƒøø.ßår/?∂éœ=πîx"}, {"/a", "http:// a"}},
    {"json-pointer", {"", "/", "/foo/0~1~0", "/a b"}, {"a", "/~", "/~2"}},
    {"relative-json-pointer", {"0", "1/a", "12#"}, {"", "/a", "01", "1##"}},
    {"uri-template", {"http://a/{b}{?c,d*}", "{+x:3}"}, {"{a", "a}", "{}", "{a,}"}},
};

TEST(ConstraintSchemaFormats, AreThoseOfTheRfcs) {
  for (const Texts& each : kTexts) {
    const std::string pattern = "^(?:" + std::string(pattern_of_format(each.format)) + ")$";
    for (const std::string& text : each.good) EXPECT_TRUE(matches_pattern(pattern, text)) << each.format << " " << text;
    for (const std::string& text : each.bad) EXPECT_FALSE(matches_pattern(pattern, text)) << each.format << " " << text;
    EXPECT_NO_THROW(grammar_of(fmt::format(R"({{"type":"string","format":"{}","maxLength":500}})", each.format)));
  }
  EXPECT_TRUE(pattern_of_format("int32").empty());
}

}  // namespace
}  // namespace transom::constraint
