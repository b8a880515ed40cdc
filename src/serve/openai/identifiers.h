// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace transom::serve {

// The prefix and 24 random letters and digits: "chatcmpl-...". Any thread.
std::string new_identifier(const std::string& prefix, size_t length = 24);

}  // namespace transom::serve
