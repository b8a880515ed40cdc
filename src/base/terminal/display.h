// SPDX-License-Identifier: Apache-2.0
// Texts as people are shown them, in tables and on pages.
#pragma once

#include <string>
#include <string_view>

namespace transom {

// At most `width` bytes, from 3 on; of a longer text the middle is left out, as its ends say most.
std::string shortened(const std::string& text, size_t width);

// With what HTML and SVG would read as markup escaped.
std::string escaped(std::string_view text);

}  // namespace transom
