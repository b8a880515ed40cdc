// SPDX-License-Identifier: Apache-2.0
// What max_length null of TRL's configurations stands for: rows that nothing is cut off.
#pragma once

#include <cstdint>
#include <optional>

#include "base/error.h"

namespace transom {

inline constexpr int64_t kWholeRows = int64_t{1} << 20;

// The length that no row has more of; none where rows are whole.
inline std::optional<int64_t> bound_of_rows(int64_t max_length) {
  return max_length < kWholeRows ? std::optional(max_length) : std::nullopt;
}

inline void expect_bound_of_rows(int64_t max_length) {
  if (max_length >= kWholeRows)
    fail(ErrorKind::kUsage, "--max_length: rows are packed or padded to it: expected a number of tokens, found none");
}

}  // namespace transom
