// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <string>

#include "transom/error.h"

namespace transom::test {

// Gives `read` the text cut off at every byte, which it must refuse in one line that begins with `where`, and with
// every byte changed in three ways, which it may refuse in such a line or read.
inline void expect_refusals(const std::string& text, const std::string& where,
                            const std::function<void(const std::string&)>& read) {
  const auto expect_one_line = [&](const Error& error) {
    const std::string message = error.what();
    EXPECT_EQ(message.find(where), 0u) << message;
    EXPECT_EQ(message.find('\n'), message.npos) << message;
  };
  for (size_t length = 0; length < text.size(); ++length) {
    try {
      read(text.substr(0, length));
      FAIL() << "the first " << length << " bytes were read";
    } catch (const Error& error) {
      expect_one_line(error);
    }
  }
  for (size_t place = 0; place < text.size(); ++place)
    for (const char change : {'\x01', '\x80', '\xff'}) {
      std::string changed = text;
      changed[place] = static_cast<char>(changed[place] ^ change);
      try {
        read(changed);
      } catch (const Error& error) {
        expect_one_line(error);
      }
    }
}

}  // namespace transom::test
