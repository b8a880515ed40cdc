// SPDX-License-Identifier: Apache-2.0
// Pictures for tests that read image files.
#pragma once

#include <array>
#include <cstdint>
#include <string>

namespace transom::test {

// A square BMP file of 24 bits; color_of(i) gives red, green and blue of pixel i. The side is a multiple of 4: rows of
// the format are not padded then.
template <typename ColorOf>
std::string bitmap(size_t side, ColorOf&& color_of) {
  std::string file(54 + 3 * side * side, '\0');
  const auto put = [&](size_t at, size_t value) {
    for (size_t i = 0; i < 4; ++i) file[at + i] = static_cast<char>(value >> (8 * i));
  };
  file[0] = 'B', file[1] = 'M';
  put(10, 54), put(14, 40), put(18, side), put(22, side), put(26, 1 | 24 << 16);
  for (size_t i = 0; i < side * side; ++i) {
    const std::array<uint8_t, 3> color = color_of(i);
    for (size_t channel = 0; channel < 3; ++channel) file[54 + 3 * i + channel] = static_cast<char>(color[2 - channel]);
  }
  return file;
}

}  // namespace transom::test
