// SPDX-License-Identifier: Apache-2.0
#include "base/numbers/float8.h"

#include <cmath>
#include <limits>

namespace transom {

const std::array<float, 256>& float8_values() {
  static const std::array<float, 256> values = [] {
    std::array<float, 256> made{};
    for (int code = 0; code < 256; ++code) {
      const int exponent = (code >> 3) & 15, mantissa = code & 7;
      float value = exponent == 0 ? std::ldexp(static_cast<float>(mantissa), -9)
                                  : std::ldexp(static_cast<float>(8 + mantissa), exponent - 10);
      if ((code & 127) == 127) value = std::numeric_limits<float>::quiet_NaN();
      made[static_cast<size_t>(code)] = code & 128 ? -value : value;
    }
    return made;
  }();
  return values;
}

}  // namespace transom
