// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

namespace transom::serve {

// The prefix and 24 random letters and digits: "chatcmpl-...". Any thread.
std::string new_identifier(const std::string& prefix, size_t length = 24);

// Random characters of `letters`, so many. Any thread.
std::string random_text(std::string_view letters, size_t length);

}  // namespace transom::serve
