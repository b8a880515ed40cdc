// SPDX-License-Identifier: Apache-2.0
// The wire format of protobuf, written: numbers of seven bits a byte, and lengths before what they count.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace transom {

// The fields of one message, in the order in which they are written.
class WireWriter {
 public:
  void number(int field, int64_t value);
  void number32(int field, float value);   // a float, as fixed 32 bits
  void number64(int field, double value);  // a double, as fixed 64 bits
  void bytes(int field, std::string_view value);
  void message(int field, const WireWriter& value) { bytes(field, value.text_); }
  const std::string& text() const { return text_; }

 private:
  void varint(uint64_t value);
  std::string text_;
};

}  // namespace transom
