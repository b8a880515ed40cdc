// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

namespace transom {

// The bytes that a text in base64 (RFC 4648, section 4, with padding) stands for. Refuses other texts, and those of
// 256 MiB and more; `where` names the source in errors.
std::string from_base64(std::string_view text, std::string_view where);

// The same text of bytes.
std::string to_base64(std::string_view bytes);

}  // namespace transom
