// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <span>
#include <string>
#include <string_view>

#include "base/numbers/crc32c.h"
#include "base/numbers/fnv.h"

namespace transom {
namespace {

std::span<const std::byte> bytes_of_text(std::string_view text) { return std::as_bytes(std::span(text)); }

TEST(Crc32c, IsCastagnolis) {
  EXPECT_EQ(crc32c(bytes_of_text("123456789")), 0xe3069283u);
  EXPECT_EQ(crc32c(bytes_of_text(std::string(32, '\0'))), 0x8a9136aau);  // RFC 3720 B.4
  EXPECT_EQ(crc32c(bytes_of_text("6789"), crc32c(bytes_of_text("12345"))), 0xe3069283u);
}

TEST(Fnv1a, IsThatOfItsAuthors) {
  EXPECT_EQ(fnv1a(""), 0xcbf29ce484222325u);
  EXPECT_EQ(fnv1a("a"), 0xaf63dc4c8601ec8cu);
  EXPECT_EQ(fnv1a("foobar"), 0x85944171f73967e8u);
  EXPECT_EQ(fnv1a("bar", fnv1a("foo")), fnv1a("foobar"));
}

}  // namespace
}  // namespace transom
