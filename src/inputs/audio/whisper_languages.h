// SPDX-License-Identifier: Apache-2.0
// The languages of Whisper: "en" is "english".
#pragma once

#include <string>
#include <string_view>

namespace transom {

// The name of a code; empty where it is none.
std::string whisper_language(std::string_view code);
// The code of a name or a code; empty where it is neither.
std::string whisper_language_code(std::string_view name);

}  // namespace transom
