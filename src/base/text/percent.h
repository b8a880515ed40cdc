// SPDX-License-Identifier: Apache-2.0
// Escapes of addresses (RFC 3986, section 2.1).
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace transom {

// The value of a hexadecimal digit; -1 of others.
int hex_digit(char c);

enum class BrokenEscapes { kRefused, kKept };
// %41 as A. A '%' without two digits behind it gives nothing, or with kKept stands for itself.
std::optional<std::string> percent_decoded(std::string_view text, BrokenEscapes broken = BrokenEscapes::kRefused);

}  // namespace transom
