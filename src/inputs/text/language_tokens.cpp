// SPDX-License-Identifier: Apache-2.0
#include "inputs/text/language_tokens.h"

#include <algorithm>

#include "base/error.h"

namespace transom {

std::optional<LanguageTokens> LanguageTokens::of(const Tokenizer& tokenizer) {
  const std::vector<int64_t> around = tokenizer.encode("").ids;
  const std::optional<int64_t> eos = tokenizer.eos_token_id();
  if (around.size() != 2 || !eos || (around[0] == *eos) == (around[1] == *eos)) return {};
  const bool before = around[1] == *eos;
  const int64_t usual = around[before ? 0 : 1];
  for (const char* role : {"bos", "cls", "sep", "pad", "unk", "mask"})
    if (tokenizer.special_token_id(role) == usual) return {};
  return LanguageTokens(tokenizer, before, usual);
}

int64_t LanguageTokens::id_of(const std::string& language, const std::string& where) const {
  const std::vector<int64_t> special = tokenizer_.all_special_ids();
  for (const std::string& token : {language, "__" + language + "__"}) {  // M2M-100 marks them so
    const std::optional<int64_t> id = tokenizer_.token_to_id(token);
    if (id && std::find(special.begin(), special.end(), *id) != special.end()) return *id;
  }
  fail("{}: expected a language of the tokenizer, as {}, found {}", where,
       quoted(tokenizer_.id_to_token(usual_).value_or("")), quoted(language));
}

void LanguageTokens::put(Encoding& text, int64_t language) const {
  const auto replace = [&](auto begin, auto end) {
    const auto found = std::find(begin, end, usual_);
    if (found != end) *found = language;
  };
  if (before_) replace(text.ids.begin(), text.ids.end());
  else replace(text.ids.rbegin(), text.ids.rend());
}

}  // namespace transom
