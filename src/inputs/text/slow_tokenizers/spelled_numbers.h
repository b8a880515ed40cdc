// SPDX-License-Identifier: Apache-2.0
// Numbers in English words, as SpeechT5's tokenizer of Transformers writes them: "$12.50" becomes "twelve point five
// zero dollars".
#pragma once

#include <string>
#include <string_view>

#include "inputs/text/unicode/aligned_text.h"
#include "inputs/text/unicode/regex.h"

namespace transom::text {

class SpelledNumbers {
 public:
  SpelledNumbers();
  // The numbers of a text, which have a sign, a symbol of a currency, at most two decimals and a percent sign, or none
  // of them, and stand in no word. The words of a number stand for all of it.
  void apply(AlignedText& text) const;

 private:
  Regex separated_, number_, spaces_;
};

// Of one such number. Empty where it is 0, as there; the number itself where it has more than 36 digits.
std::string spelled_number(std::string_view number);

}  // namespace transom::text
