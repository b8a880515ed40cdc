// SPDX-License-Identifier: Apache-2.0
// Written by scripts/record-cases; do not edit.
#include "models/catalogue.h"

namespace transom {

std::span<const RecordedCase> recorded_cases() {
  // clang-format off
  static const std::vector<RecordedCase> cases = {
  };
  // clang-format on
  return cases;
}

}  // namespace transom
