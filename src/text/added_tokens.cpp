// SPDX-License-Identifier: Apache-2.0
#include "text/added_tokens.h"

#include <algorithm>

#include "base/error.h"
#include "base/json.h"
#include "text/unicode.h"

namespace transom::text {
namespace {

// The character that ends before `at`; `at` is not the beginning.
char32_t character_before(std::string_view text, size_t at, size_t& begin) {
  begin = at - 1;
  while (begin > 0 && is_continuation(text[begin])) --begin;
  const char* p = text.data() + begin;
  return next_character(p);
}

char32_t character_at(std::string_view text, size_t at, size_t& end) {
  const char* p = text.data() + at;
  const char32_t c = next_character(p);
  end = static_cast<size_t>(p - text.data());
  return c;
}

bool stands_alone(std::string_view text, size_t begin, size_t end) {
  size_t ignored = 0;
  if (begin > 0 && is_word_character(character_before(text, begin, ignored))) return false;
  return end == text.size() || !is_word_character(character_at(text, end, ignored));
}

}  // namespace

AddedTokens::AddedTokens(std::vector<AddedToken> tokens, const Normalizer* normalizer) : tokens_(std::move(tokens)) {
  for (size_t i = 0; i < tokens_.size(); ++i) {
    const AddedToken& token = tokens_[i];
    by_id_[token.id] = i;
    by_content_[token.content] = i;
    if (token.content.empty()) continue;
    std::string pattern = token.content;
    if (token.normalized && normalizer) {
      AlignedText text;
      text.reset(pattern);
      normalizer->normalize(text);
      pattern = text.all();
    }
    if (!pattern.empty()) (token.normalized ? normalized_ : original_)[pattern[0]].push_back({pattern, i});
  }
  for (Patterns* patterns : {&original_, &normalized_})
    for (auto& [first, list] : *patterns)
      std::stable_sort(list.begin(), list.end(),
                       [](const Pattern& a, const Pattern& b) { return a.text.size() > b.text.size(); });
}

const AddedToken* AddedTokens::by_id(int64_t id) const {
  const auto found = by_id_.find(id);
  return found == by_id_.end() ? nullptr : &tokens_[found->second];
}
const AddedToken* AddedTokens::by_content(std::string_view content) const {
  const auto found = by_content_.find(std::string(content));
  return found == by_content_.end() ? nullptr : &tokens_[found->second];
}

void AddedTokens::find(AlignedText& text, const Patterns& patterns) const {
  if (patterns.empty()) return;
  text.split([&](const Piece& piece, auto&& emit) {
    const std::string_view view = text.view(piece);
    size_t rest = 0;  // where what is no token begins
    for (size_t at = 0; at < view.size();) {
      const auto list = patterns.find(view[at]);
      const Pattern* match = nullptr;
      if (list != patterns.end())
        for (const Pattern& pattern : list->second)
          if (view.substr(at, pattern.text.size()) == pattern.text) {
            match = &pattern;
            break;
          }
      if (!match) {
        ++at;
        continue;
      }
      const AddedToken& token = tokens_[match->token];
      size_t begin = at, end = at + match->text.size();
      at = end;
      if (token.single_word && !stands_alone(view, begin, end)) continue;
      for (size_t before = 0; token.lstrip && begin > rest && is_white_space(character_before(view, begin, before));)
        begin = before;
      for (size_t behind = 0; token.rstrip && end < view.size() && is_white_space(character_at(view, end, behind));)
        end = behind;
      emit(piece.begin + static_cast<uint32_t>(rest), piece.begin + static_cast<uint32_t>(begin));
      emit(piece.begin + static_cast<uint32_t>(begin), piece.begin + static_cast<uint32_t>(end),
           static_cast<int32_t>(token.id));
      rest = at = end;
    }
    emit(piece.begin + static_cast<uint32_t>(rest), piece.end);
  });
}

std::vector<AddedToken> parse_added_tokens(const Json& json, const std::string& where) {
  std::vector<AddedToken> tokens;
  if (json.is_null()) return tokens;
  if (!json.is_array()) fail("{}: expected a list added_tokens", where);
  for (const Json& item : json) {
    if (!item.is_object() || !item.contains("id") || !item["id"].is_number_integer() || !item.contains("content") ||
        !item["content"].is_string())
      fail("{}: an added token has no id or no content", where);
    AddedToken token{.id = item["id"].get<int64_t>(), .content = item["content"].get<std::string>()};
    if (token.id < 0 || token.id > (1 << 27))
      fail("{}: the added token {} has the id {}", where, transom::quoted(token.content), token.id);
    token.single_word = flag(item, "single_word", false);
    token.lstrip = flag(item, "lstrip", false);
    token.rstrip = flag(item, "rstrip", false);
    token.special = flag(item, "special", false);
    token.normalized = flag(item, "normalized", !token.special);
    tokens.push_back(std::move(token));
  }
  return tokens;
}

}  // namespace transom::text
