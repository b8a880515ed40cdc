// SPDX-License-Identifier: Apache-2.0
// Tokenizers of many languages (NLLB, mBART, mBART-50, M2M-100): a text stands beside its end and the token of its
// language.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "transom/tokenizer.h"

namespace transom {

class LanguageTokens {
 public:
  // None: the tokenizer knows no languages.
  static std::optional<LanguageTokens> of(const Tokenizer& tokenizer);
  // The token of a language, "fra_Latn", "ro_RO", "fr"; throws for others, `where` names what said it.
  int64_t id_of(const std::string& language, const std::string& where) const;
  // Puts it in the place of the language that the tokenizer takes by itself.
  void put(Encoding& text, int64_t language) const;

 private:
  LanguageTokens(const Tokenizer& tokenizer, bool before, int64_t usual)
      : tokenizer_(tokenizer), before_(before), usual_(usual) {}
  Tokenizer tokenizer_;
  bool before_;
  int64_t usual_;
};

}  // namespace transom
