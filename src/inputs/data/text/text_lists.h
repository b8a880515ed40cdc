// SPDX-License-Identifier: Apache-2.0
// Lists of words that a file holds as text.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace transom {

// "['a', \"b's\"]" and "[1 2]" as Python and numpy write lists, "[\"a\"]" as JSON does, or words with spaces between.
// Errors name `where` for a list that does not end.
std::vector<std::string> list_of_text(std::string_view text, std::string_view where);

}  // namespace transom
