// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "text/components.h"

namespace transom::text {

std::string replaced(std::string text, std::string_view from, std::string_view to);
// clean_up_tokenization_spaces: no space before punctuation and English contractions.
std::string cleaned_up(std::string text);

}  // namespace transom::text
