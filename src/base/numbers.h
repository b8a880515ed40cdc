// SPDX-License-Identifier: Apache-2.0
// Numbers of texts, in every locale with a point.
#pragma once

#include <optional>
#include <string_view>

namespace transom {

// The number that the whole text is ("0.5", "+1e-3", "inf", "nan"), rounded to double: infinite or 0 where it is beyond
// the range. Empty where the text is anything else.
std::optional<double> parse_double(std::string_view text);

}  // namespace transom
