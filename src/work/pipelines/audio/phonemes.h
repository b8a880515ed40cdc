// SPDX-License-Identifier: Apache-2.0
// Texts as phonemes of the International Phonetic Alphabet, by espeak-ng: a program of its own that is looked for when
// a text is spoken, and may be absent.
#pragma once

#include <string>
#include <string_view>

namespace transom {

// The phonemes of a text with its punctuation between them. `language`: a voice of espeak-ng ("en-us", "ja").
// Refuses texts where the program is not found, or does not know the language.
std::string phonemes_of(std::string_view text, const std::string& language);

}  // namespace transom
