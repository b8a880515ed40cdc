// SPDX-License-Identifier: Apache-2.0
// The languages of Whisper: "en" is "english".
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace transom {

// The name of a code; empty where it is none.
std::string whisper_language(std::string_view code);
// The code of a name or a code; empty where it is neither.
std::string whisper_language_code(std::string_view name);
// The token of a language by its name or code, in letters of any case: "German" -> "<|de|>". Empty where it is none.
std::string whisper_language_mark(std::string_view name);
// What the model hears: of the ids of languages the one of the highest score, for each of `rows` rows of scores.
std::vector<int64_t> likeliest_languages(std::span<const float> scores, size_t rows, std::vector<int64_t> ids);

}  // namespace transom
