// SPDX-License-Identifier: Apache-2.0
#include "inputs/text/unicode/byte_level.h"

namespace transom::text {

const std::array<char32_t, 256>& byte_characters() {
  static const std::array<char32_t, 256> table = [] {
    std::array<char32_t, 256> result{};
    char32_t next = 256;
    for (char32_t byte = 0; byte < 256; ++byte) {
      const bool printable = (byte >= 0x21 && byte <= 0x7E) || (byte >= 0xA1 && byte <= 0xAC) || byte >= 0xAE;
      result[byte] = printable ? byte : next++;
    }
    return result;
  }();
  return table;
}

bool append_byte_of(char32_t c, std::string& bytes) {
  static const std::array<int, 512> table = [] {
    std::array<int, 512> result;
    result.fill(-1);
    for (size_t byte = 0; byte < 256; ++byte) result[byte_characters()[byte]] = static_cast<int>(byte);
    return result;
  }();
  if (c >= table.size() || table[c] < 0) return false;
  bytes.push_back(static_cast<char>(static_cast<unsigned char>(table[c])));
  return true;
}

}  // namespace transom::text
