// SPDX-License-Identifier: Apache-2.0
// Removing the spaces that word-wise decoding leaves before punctuation marks and English contractions.
#pragma once

#include <string>
#include <string_view>

namespace transom::text {

std::string replace_all(std::string text, std::string_view from, std::string_view to);
std::string stripped(const std::string& text);  // as Python's str.strip()
std::string clean_up_spaces(std::string text);

}  // namespace transom::text
