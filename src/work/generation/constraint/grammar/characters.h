// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace transom::constraint {

// The character at `at`, which moves behind it. Throws Error for what is no UTF-8. `at` is inside of the text.
uint32_t next_character(std::string_view text, size_t& at);

}  // namespace transom::constraint
