// SPDX-License-Identifier: Apache-2.0
// Errors of the JSON library in plain words; its own texts name its classes, not what the user can mend.
#pragma once

#include <cstddef>
#include <exception>
#include <string>
#include <string_view>

namespace transom {

// Why a value could not be read ("expected a number, found a string", "'name' is missing"), from what nlohmann::json
// throws when a document is valid JSON and holds something else than what is looked for.
std::string json_reason(const std::exception& error);

// Where and why a document is not valid JSON: "line 3, column 7: ...". `byte` is the number of bytes that were read.
std::string json_syntax_error(std::string_view text, size_t byte);

}  // namespace transom
