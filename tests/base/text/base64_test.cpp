// SPDX-License-Identifier: Apache-2.0
#include "base/text/base64.h"

#include <gtest/gtest.h>

#include "base/error.h"

namespace transom {
namespace {

TEST(Base64, ReadsTheExamplesOfItsDefinition) {  // RFC 4648, section 10
  EXPECT_EQ(from_base64("", "x"), "");
  EXPECT_EQ(from_base64("Zg==", "x"), "f");
  EXPECT_EQ(from_base64("Zm8=", "x"), "fo");
  EXPECT_EQ(from_base64("Zm9vYmFy", "x"), "foobar");
}

TEST(Base64, WritesWhatItReads) {
  EXPECT_EQ(to_base64(""), "");
  EXPECT_EQ(to_base64("fo"), "Zm8=");
  std::string bytes;
  for (int i = 0; i < 1000; ++i) bytes += static_cast<char>(i * 37);
  for (size_t size = 0; size < bytes.size(); size += 7)
    EXPECT_EQ(from_base64(to_base64(bytes.substr(0, size)), "x"), bytes.substr(0, size));
}

TEST(Base64, KeepsBytesThatAreZero) { EXPECT_EQ(from_base64("AAAA", "x"), std::string(3, '\0')); }

TEST(Base64, RefusesOtherTexts) {
  for (const char* text : {"Z", "Zg=", "Z?==", "Zm9vYmF", "\xff\xff\xff\xff"})
    EXPECT_THROW(from_base64(text, "an image"), Error) << text;
}

}  // namespace
}  // namespace transom
