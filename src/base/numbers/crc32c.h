// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace transom {

// CRC-32C (Castagnoli, RFC 3720 B.4) of what `before` is the CRC of, followed by `bytes`.
uint32_t crc32c(std::span<const std::byte> bytes, uint32_t before = 0);
// As LevelDB and TensorFlow store it: rotated and shifted, so that the CRC of a CRC is no fixed point.
inline uint32_t masked_crc32c(std::span<const std::byte> bytes) {
  const uint32_t crc = crc32c(bytes);
  return (crc >> 15 | crc << 17) + 0xa282ead8u;
}

}  // namespace transom
