// SPDX-License-Identifier: Apache-2.0
#include "inputs/text/components/added_tokens.h"

#include <algorithm>
#include <functional>

#include "inputs/text/components/fields.h"
#include "inputs/text/unicode/unicode.h"

namespace transom::text {
namespace {

bool ends_with_word(std::string_view text) {
  if (text.empty()) return false;
  size_t at = previous_boundary(text, text.size());
  return is_word_character(next_character(text, at));
}

bool starts_with_word(std::string_view text) {
  size_t at = 0;
  return !text.empty() && is_word_character(next_character(text, at));
}

}  // namespace

void TokenFinder::add(std::string content, const AddedToken& token) {
  if (content.empty()) return;
  std::vector<size_t>& lengths = lengths_[static_cast<unsigned char>(content[0])];
  const auto place = std::lower_bound(lengths.begin(), lengths.end(), content.size(), std::greater());
  if (place == lengths.end() || *place != content.size()) lengths.insert(place, content.size());
  const auto [found, is_new] = tokens_.emplace(std::move(content), token);
  // The same token again takes the place; of two that the normaliser makes equal the first is found.
  if (!is_new && found->second.content == token.content) found->second = token;
}

int64_t TokenFinder::match(std::string_view text, size_t last, size_t& begin, size_t& end, size_t& at) const {
  const std::string_view rest = text.substr(at);
  for (const size_t length : lengths_[static_cast<unsigned char>(text[at])]) {
    const auto found = length <= rest.size() ? tokens_.find(rest.substr(0, length)) : tokens_.end();
    if (found == tokens_.end()) continue;
    const auto& [content, token] = *found;
    begin = at, end = at + content.size();
    if (token.single_word && (ends_with_word(text.substr(0, begin)) || starts_with_word(text.substr(end)))) {
      at = end;  // the search goes on behind it
      return -1;
    }
    at = end;
    if (token.lstrip) begin = std::max(begin, last);
    while (token.lstrip && begin > last) {
      const size_t previous = previous_boundary(text, begin);
      size_t next = previous;
      if (previous < last || !is_space(next_character(text, next))) break;
      begin = previous;
    }
    while (token.rstrip && end < text.size()) {
      size_t next = end;
      if (!is_space(next_character(text, next))) break;
      end = next;
    }
    return token.id;
  }
  ++at;
  return -1;
}

AddedTokens::AddedTokens(std::vector<AddedToken> tokens, const Normalizer* normalizer, Vocabulary& vocabulary) {
  for (const AddedToken& token : tokens) vocabulary.insert(token.content, token.id);
  std::stable_partition(tokens.begin(), tokens.end(), [](const AddedToken& token) { return token.special; });
  for (const AddedToken& token : tokens) {
    if (token.special) special_.push_back(token.id);
    bool changed = false;
    if (token.normalized && normalizer != nullptr) {
      AlignedText text(token.content);
      normalizer->apply(text);
      changed = text.bytes != token.content;
      if (changed) vocabulary.set_text(token.id, text.bytes);  // it is decoded as it is found
      normalized_.add(text.bytes, token);
    } else if (token.normalized) {
      normalized_.add(token.content, token);
    } else {
      raw_.add(token.content, token);
    }
    if (token.special && !changed) skipped_.push_back(token.id);
  }
  for (std::vector<int64_t>* ids : {&special_, &skipped_}) {
    std::sort(ids->begin(), ids->end());
    ids->erase(std::unique(ids->begin(), ids->end()), ids->end());
  }
}

Pieces AddedTokens::extract(std::string_view text, const Normalizer* normalizer, bool split_special) const {
  Pieces result;
  const std::span<const int64_t> passed = split_special ? std::span(special_) : std::span<const int64_t>();
  AlignedText original(text);
  raw_.split(text, passed, [&](size_t begin, size_t end, int64_t token) {
    AlignedText part;
    if (begin == 0 && end == original.size()) part = std::move(original);
    else part.append(original, begin, end);
    const bool first = begin == 0;
    const auto emit = [&](size_t from, size_t to, int64_t id) {
      const auto at = static_cast<uint32_t>(result.text.size());
      result.text.append(part, from, to);
      result.pieces.push_back({at, static_cast<uint32_t>(result.text.size()), first && from == 0, id});
    };
    if (token >= 0) return emit(0, part.size(), token);
    if (normalizer != nullptr) normalizer->apply(part);
    normalized_.split(part.bytes, passed, emit);
  });
  return result;
}

bool AddedTokens::is_skipped(int64_t id) const { return std::binary_search(skipped_.begin(), skipped_.end(), id); }

void AddedTokens::add_special(int64_t id) {
  for (std::vector<int64_t>* ids : {&special_, &skipped_}) {
    const auto place = std::lower_bound(ids->begin(), ids->end(), id);
    if (place == ids->end() || *place != id) ids->insert(place, id);
  }
}

std::vector<int64_t> AddedTokens::special_ids() const { return special_; }

std::vector<AddedToken> read_added_tokens(const Json& json, const std::string& where) {
  std::vector<AddedToken> result;
  if (json.is_null()) return result;
  require(json.is_array(), "{}: expected an array, found {}", where, json.type_name());
  for (const Json& item : json) {
    const bool special = bool_field(item, "special", where, false);
    AddedToken token{integer_field(item, "id", where),
                     string_field(item, "content", where),
                     bool_field(item, "single_word", where, false),
                     bool_field(item, "lstrip", where, false),
                     bool_field(item, "rstrip", where, false),
                     bool_field(item, "normalized", where, !special),
                     special};
    result.push_back(std::move(token));
  }
  return result;
}

}  // namespace transom::text
