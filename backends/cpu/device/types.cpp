// SPDX-License-Identifier: Apache-2.0
#include "cpu/device/types.h"

#include <cmath>

namespace transom::cpu {

Float16::Float16(float value) {
  const uint32_t u = std::bit_cast<uint32_t>(value);
  const uint32_t sign = (u >> 16) & 0x8000, magnitude = u & 0x7FFFFFFF;
  uint32_t result;
  if (magnitude > 0x7F800000) result = 0x7E00;        // NaN
  else if (magnitude >= 0x477FF000) result = 0x7C00;  // rounds to infinity
  else if (magnitude < 0x38800000) {                  // subnormal: the sum's last place is 2^-24
    const float shifted = std::bit_cast<float>(magnitude) + 0.5f;
    result = std::bit_cast<uint32_t>(shifted) - std::bit_cast<uint32_t>(0.5f);
  } else {
    result = (magnitude + 0xFFF + ((magnitude >> 13) & 1) - 0x38000000) >> 13;
  }
  bits = static_cast<uint16_t>(sign | result);
}

Float16::operator float() const {
  const uint32_t sign = static_cast<uint32_t>(bits & 0x8000) << 16, exponent = (bits >> 10) & 31,
                 fraction = bits & 0x3FF;
  if (exponent == 0) {
    const float value = static_cast<float>(fraction) * 0x1p-24f;
    return std::bit_cast<float>(std::bit_cast<uint32_t>(value) | sign);
  }
  const uint32_t biased = exponent == 31 ? 255 : exponent + 112;
  return std::bit_cast<float>(sign | (biased << 23) | (fraction << 13));
}

}  // namespace transom::cpu
