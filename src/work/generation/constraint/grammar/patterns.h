// SPDX-License-Identifier: Apache-2.0
// Questions about regular expressions that need no vocabulary. Patterns are found anywhere in a text, as JSON Schema
// means them. Both throw Error for patterns that regex_part refuses.
#pragma once

#include <string_view>

namespace transom::constraint {

bool matches_pattern(std::string_view pattern, std::string_view text);
// Whether some text matches both; also true where that takes too long to find out.
bool share_a_text(std::string_view first, std::string_view second);

}  // namespace transom::constraint
