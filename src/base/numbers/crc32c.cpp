// SPDX-License-Identifier: Apache-2.0
#include "base/numbers/crc32c.h"

#include <array>
#include <cstring>

namespace transom {
namespace {

// Eight tables: eight bytes at a time.
using Tables = std::array<std::array<uint32_t, 256>, 8>;

constexpr Tables make_tables() {
  constexpr uint32_t kPolynomial = 0x82f63b78;
  Tables tables{};
  for (uint32_t i = 0; i < 256; ++i) {
    uint32_t crc = i;
    for (int bit = 0; bit < 8; ++bit) crc = crc >> 1 ^ ((crc & 1) != 0 ? kPolynomial : 0);
    tables[0][i] = crc;
  }
  for (size_t t = 1; t < 8; ++t)
    for (size_t i = 0; i < 256; ++i) tables[t][i] = tables[t - 1][i] >> 8 ^ tables[0][tables[t - 1][i] & 0xff];
  return tables;
}

constexpr Tables kTables = make_tables();

}  // namespace

uint32_t crc32c(std::span<const std::byte> bytes, uint32_t before) {
  uint32_t crc = ~before;
  const std::byte* at = bytes.data();
  size_t left = bytes.size();
  for (; left >= 8; left -= 8, at += 8) {
    uint64_t word;
    std::memcpy(&word, at, 8);
    word ^= crc;
    crc = 0;
    for (size_t i = 0; i < 8; ++i) crc ^= kTables[7 - i][word >> (8 * i) & 0xff];
  }
  for (; left > 0; --left, ++at) crc = crc >> 8 ^ kTables[0][(crc ^ static_cast<uint32_t>(*at)) & 0xff];
  return ~crc;
}

}  // namespace transom
