// SPDX-License-Identifier: Apache-2.0
// Numbers and truth values of texts, in every locale the same.
#pragma once

#include <optional>
#include <string_view>

namespace transom {

// The number that the whole text is ("0.5", "+1e-3", "inf", "nan"), rounded to double: infinite or 0 where it is beyond
// the range. Empty where the text is anything else.
std::optional<double> parse_double(std::string_view text);

// As HfArgumentParser reads it, in capitals or not: true, yes, t, y, 1; false, no, f, n, 0. Empty for anything else.
std::optional<bool> parse_bool(std::string_view text);

}  // namespace transom
